"""The reports of `grader similar`: ranked tables, and for each pair the two codes side by side."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.report import html_pages
from grader.report.terminal_report import printed
from grader.similarity.pairs import Pair, Work
from kit.text import counted, one_line

TEMPLATES = Path(__file__).parent / "templates"
MAX_LINES = 1_000  # of one definition
MAX_PLACES = 100  # pairs of definitions on a page
MAX_LINES_OF_PAGE = 20_000  # after which no other pair of definitions is shown
MAX_UNREAD = 20  # files that cannot be compared, of which the rest is a number
MAX_WIDTH = 200  # characters of a line
MAX_READ = 4_000  # characters of a line that are looked at
WIDE = 160  # the width in columns if stdout is not a terminal
AROUND = 3  # lines that are shown before and after similar lines
LONGEST = 8  # an expression with more lines has only its first line marked
LINE_END = re.compile(r"\r\n|\r|\n")
REASON = "A reason to look, not a finding: read both sources first."


@dataclass(frozen=True)
class Section:
    """The pairs inside the class, or those with one folder or gradebook."""

    title: str  # what the class is compared with
    pairs: list[Pair]  # the pairs that are shown, the most alike first
    found: int  # the number of all pairs
    compared: int  # the number of submissions that the class was compared with

    @property
    def counted(self) -> str:
        """How many pairs there are, and how many of them are shown."""
        number = counted(self.found, "pair")
        shown = len(self.pairs)
        return number if shown == self.found else f"the first {shown} of {number}"


@dataclass(frozen=True)
class Line:
    """One line of a source."""

    number: int  # its number in the file
    text: str  # its text, safe to show
    other: int  # the line on the other side that is most like it; 0 if none is
    is_far: bool  # whether no similar line is near


@dataclass(frozen=True)
class PlaceInCode:
    """A definition of each side; what both have in common is worth `amount`."""

    amount: float
    names: tuple[str, str]
    one: list[Line]
    other: list[Line]


def index(
    sections: Sequence[Section],
    names: Sequence[str],
    *,
    title: str,
    threshold: float,
    unread: Sequence[str],
    link: Callable[[Pair], str],
) -> str:
    """The page with the ranked tables.

    Args:
        sections: The pairs.
        names: The names of all submissions, by number.
        title: The assignment's title.
        threshold: The smallest amount.
        unread: The files that could not be compared, and why.
        link: The address of a pair's page.
    """
    return _render(
        "similar.html", title=f"{title}: similar submissions", sections=sections, names=names,
        heading=title, threshold=threshold, unread=_first(unread), link=link,
    )  # fmt: skip


def table(
    sections: Sequence[Section], names: Sequence[str], *, threshold: float, unread: Sequence[str]
) -> str:
    """The ranked tables for a terminal."""
    parts: list[RenderableType] = []
    for section in sections:
        title = Text(f"{section.title}: {section.counted} from {threshold:g} on")
        parts += [title, *([_rows(section.pairs, names)] if section.pairs else []), ""]
    parts += [Text(f"not compared: {line}") for line in _first(unread)]
    return printed(*parts, REASON, wide=WIDE)


def _rows(pairs: Sequence[Pair], names: Sequence[str]) -> Table:
    rows = Table(box=None, pad_edge=False)
    rows.add_column("shared", justify="right")
    rows.add_column("share", justify="right")
    rows.add_column("students", overflow="fold")
    for pair in pairs:
        both = f"{names[pair.one]} and {names[pair.other]}"
        rows.add_row(f"{pair.amount:.0f}", f"{100 * pair.share:.0f} %", Text(both))
    return rows


def _first(unread: Sequence[str]) -> list[str]:
    more = len(unread) - MAX_UNREAD
    return [*unread[:MAX_UNREAD], *([f"and {more} more"] if more > 0 else [])]


def side_by_side(
    pair: Pair,
    names: Sequence[str],
    works: tuple[Work, Work],
    sources: tuple[Mapping[str, bytes], Mapping[str, bytes]],
    weights: Mapping[int, float],
) -> str:
    """The page of one pair: the similar definitions, with the similar lines marked.

    Args:
        names: The names of all submissions, by number.
        works: The two submissions as they were compared.
        weights: The features that they share; see `pairs.shared`.
    """
    return _render(
        "pair.html", title=f"{names[pair.one]} and {names[pair.other]}", pair=pair, reason=REASON,
        both=(names[pair.one], names[pair.other]), places=places(works, sources, weights),
    )  # fmt: skip


def places(
    works: tuple[Work, Work],
    sources: tuple[Mapping[str, bytes], Mapping[str, bytes]],
    weights: Mapping[int, float],
) -> list[PlaceInCode]:
    """Each definition of the first with the definition of the second that is most like it."""
    left, right = (_where(work, weights) for work in works)
    alike: dict[_Unit, Counter[_Unit]] = {}
    ways: dict[tuple[_Unit, _Unit], list[_Way]] = {}
    for feature in left.keys() & right.keys():
        one, other, weight = left[feature], right[feature], weights[feature]
        alike.setdefault(one.unit, Counter())[other.unit] += weight  # type: ignore[assignment]
        ways.setdefault((one.unit, other.unit), []).append((one, other, weight))
    best = [
        (unit, *max(others.items(), key=lambda item: (item[1], item[0])))
        for unit, others in alike.items()
    ]
    best.sort(key=lambda item: (-item[2], item[0]))
    found: list[PlaceInCode] = []
    shown = 0
    texts = [_Texts(work, each) for work, each in zip(works, sources, strict=True)]
    for unit, partner, amount in best[:MAX_PLACES]:
        both = ways[unit, partner]
        one_side = texts[0].lines(unit, _partners(both))
        other_side = texts[1].lines(partner, _partners([(b, a, w) for a, b, w in both]))
        shown += len(one_side) + len(other_side)
        if found and shown > MAX_LINES_OF_PAGE:
            break
        names = _name(works[0], unit), _name(works[1], partner)
        found.append(PlaceInCode(amount, names, one_side, other_side))
    return found


@dataclass(frozen=True)
class _Spot:
    """Where a feature is: its definition, as a path and a number, and its lines."""

    unit: "_Unit"
    first: int
    last: int


_Unit = tuple[str, int]
_Way = tuple[_Spot, _Spot, float]  # a feature on both sides, and its weight


def _where(work: Work, weights: Mapping[int, float]) -> dict[int, _Spot]:
    return {
        h: _Spot((path, unit), first, last)
        for path in sorted(work.files, reverse=True)
        for h, first, last, unit in work.files[path].features.tolist()
        if h in weights
    }


def _name(work: Work, unit: _Unit) -> str:
    path, number = unit
    name = work.files[path].units[number].name
    return one_line(f"{path}: {name}" if name else path, 200)


def _partners(ways: Sequence[_Way]) -> dict[int, int]:
    """For each similar line of one side, the line of the other side that is most like it."""
    votes: dict[int, Counter[int]] = {}
    for spot, other, weight in ways:
        end = spot.last if spot.last - spot.first < LONGEST else spot.first
        for line in range(spot.first, end + 1):
            votes.setdefault(line, Counter())[other.first] += weight  # type: ignore[assignment]
    return {line: max(found.items(), key=lambda item: (item[1], -item[0]))[0]
            for line, found in votes.items()}  # fmt: skip


class _Texts:
    """The files of a submission as lines; each is split once."""

    def __init__(self, work: Work, sources: Mapping[str, bytes]) -> None:
        self._work, self._sources = work, sources
        self._split: dict[str, list[str]] = {}

    def lines(self, unit: _Unit, partners: Mapping[int, int]) -> list[Line]:
        """The lines of a definition."""
        path, place = unit
        if path not in self._split:
            source = self._sources[path].decode("utf-8-sig", "replace")
            self._split[path] = LINE_END.split(source)
        texts, whole = self._split[path], self._work.files[path].units[place]
        first, last = (whole.first, whole.last) if whole.name else (1, len(texts))
        near = {n + d for n in partners for d in range(-AROUND, AROUND + 1)}
        return [
            Line(number, _text(texts[number - 1]), partners.get(number, 0), number not in near)
            for number in range(first, min(last, len(texts), first + MAX_LINES) + 1)
        ]


def _text(line: str) -> str:
    text = line[:MAX_READ].expandtabs(4)
    inside = text.lstrip(" ")
    return " " * min(MAX_WIDTH, len(text) - len(inside)) + one_line(inside, MAX_WIDTH)


def _render(template: str, *, title: str, **values: Any) -> str:
    style = (TEMPLATES / "similar.css").read_text(encoding="utf-8")
    return html_pages.render(template, title=title, folder=TEMPLATES, styles=[style], **values)
