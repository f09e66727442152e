"""Drawings as SVG text: boxes, lines, words and axes.

Colours are classes of static/site.css, so that they suit light and dark mode.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape

WIDTH = 480  # of every drawing; narrow enough for a phone

Scale = Callable[[float], float]
Tick = int | tuple[float, str]  # a value, and what to write if it is not its digits


class Drawing:
    """A picture that is built part by part.

    Sizes are in its own pixels, which a page scales to its width. It is WIDTH wide.
    """

    def __init__(self, height: float, title: str, description: str) -> None:
        self.height, self.title, self.description = height, title, description
        self.parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """A box."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'class="{style}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = "axis") -> None:
        """A straight line."""
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'
        )

    def path(self, points: Iterable[tuple[float, float]], style: str) -> None:
        """A line through points."""
        self.parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" '
            f'class="{style}"/>'
        )

    def dot(self, x: float, y: float, style: str) -> None:
        """A point."""
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{style}"/>')

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", style: str = "label"
    ) -> None:
        """Words, whose baseline is at y."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">'
            f"{escape(words)}</text>"
        )

    def box(self, x: float, y: float, width: float, height: float, words: str, style: str) -> None:
        """A box with words in its middle."""
        self.rect(x, y, width, height, style)
        self.text(x + width / 2, y + height / 2 + 5, words, anchor="middle", style="inside")

    def keys(self, y: float, places: Iterable[float], styles: Mapping[str, str]) -> None:
        """A row of the legend: at each place a small box, and what its colour means."""
        for x, (words, style) in zip(places, styles.items(), strict=False):
            self.rect(x, y, 14, 14, style)
            self.text(x + 20, y + 12, words)

    def down(self, x: float, y: float) -> None:
        """The head of an arrow that points down to (x, y)."""
        self.path([(x - 6, y - 8), (x, y), (x + 6, y - 8)], "arrow")

    def svg(self) -> str:
        """The whole picture, with its description for screen readers.

        The description is not a <title>, because Sphinx's search would index that.
        """
        box = f'viewBox="0 0 {WIDTH} {self.height:g}" xmlns="http://www.w3.org/2000/svg"'
        named = f'role="img" aria-label="{escape(f"{self.title}. {self.description}")}"'
        return f'<svg class="drawing" {named} {box}>{"".join(self.parts)}</svg>'


def linear(low: float, high: float, start: float, stop: float) -> Scale:
    """A linear map from numbers to pixels."""
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def logarithmic(low: float, high: float, start: float, stop: float) -> Scale:
    """A logarithmic map from numbers to pixels: each factor of ten has the same width."""
    return lambda value: start + math.log10(value / low) / math.log10(high / low) * (stop - start)


def bottom_axis(
    drawing: Drawing, scale: Scale, y: float, ticks: Iterable[Tick], label: str, top: float
) -> None:
    """Draw a horizontal axis: ticks with numbers, faint lines up to `top`, and a label."""
    ends = []
    for at, words in _placed(scale, ticks):
        drawing.line(at, top, at, y, "grid")
        drawing.text(at, y + 16, words, anchor="middle", style="tick")
        ends.append(at)
    drawing.line(min(ends), y, max(ends), y)
    drawing.text((min(ends) + max(ends)) / 2, y + 34, label, anchor="middle")


def left_axis(
    drawing: Drawing, scale: Scale, x: float, ticks: Iterable[Tick], label: str, right: float
) -> None:
    """Draw a vertical axis: ticks with numbers, faint lines up to `right`, and a label above."""
    ends = []
    for at, words in _placed(scale, ticks):
        drawing.line(x, at, right, at, "grid")
        drawing.text(x - 6, at + 4, words, anchor="end", style="tick")
        ends.append(at)
    drawing.line(x, min(ends), x, max(ends))
    drawing.text(4, min(ends) - 12, label)


def _placed(scale: Scale, ticks: Iterable[Tick]) -> Iterator[tuple[float, str]]:
    """Where each tick is, and its words."""
    for tick in ticks:
        value, words = tick if isinstance(tick, tuple) else (tick, f"{tick:,}")
        yield scale(value), words


def powers(exponents: Iterable[int]) -> list[Tick]:
    """Ticks of a logarithmic axis, such as 1e3."""
    return [(10.0**e, f"1e{e}") for e in exponents]
