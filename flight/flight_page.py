"""A flight's card, which is a picture, the page of all cards, and what a terminal shows."""

import math
import textwrap
from html import escape
from itertools import pairwise, zip_longest
from typing import Any
from urllib.parse import quote

from flight.flying import Record, last_loss
from flight.parts import OF_PROBLEM
from flight.prediction import PARAMETERS, SECONDS
from kit.safe_text import PLOT_WIDTH, plot, printable

RIGHT = "text-anchor='end'"


def number(value: float | None, unit: str) -> str:
    """A number of the table with its unit."""
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{value / 1e6:,.2f} MB"
    if unit == "s":
        return f"{value:.3f} s"
    if unit == "nats":
        return f"{value:.3f}"
    return f"{value:,.0f}" if value < 1e9 else f"{value:.4e}"


def ratio(row: dict[str, Any]) -> str:
    """Measured over predicted."""
    if not row["predicted"] or row["measured"] is None:
        return "–"
    return f"{row['measured'] / row['predicted']:.4g}"


def render(cards: list[str]) -> str:
    """The page of all flights: their cards, one below the other, by their addresses."""
    picture = "<p><img src='{}' alt='{}' width='100%'></p>"
    shown = [picture.format(quote(card), escape(card)) for card in cards]
    title = "<!doctype html><html lang='en'><meta charset='utf-8'><title>Flights</title>"
    return "\n".join([title, "<h1>Flights</h1>", *shown]) + "\n"


def smooth(losses: list[float], width: int) -> list[float]:
    """Means of the last `width` losses."""
    return [
        sum(losses[max(0, i - width + 1) : i + 1]) / min(width, i + 1) for i in range(len(losses))
    ]


def in_text(losses: list[float]) -> str:
    """The curve of losses for a terminal: a star for each column's mean."""
    width = min(PLOT_WIDTH, len(losses))
    edges = [i * len(losses) // width for i in range(width + 1)]
    means = [(a, sum(losses[a:b]) / (b - a), "*") for a, b in pairwise(edges)]
    if not math.isfinite(sum(losses)):
        return "(no curve: a loss is not finite)"
    return plot(means)


def beside(samples: dict[str, str], width: int = 78) -> str:
    """The samples in columns next to each other, for a terminal."""
    each = width // max(1, len(samples)) - 2
    shown = {name: printable(" ".join(text.split()), 300) for name, text in samples.items()}
    columns = [[name, "", *textwrap.wrap(text, each)] for name, text in shown.items()]
    lines = zip_longest(*columns, fillvalue="")
    return "\n".join("  ".join(f"{part:<{each}}" for part in line).rstrip() for line in lines)


def marked(own: list[str], failing: list[str]) -> list[str]:
    """The student's parts; where their public tests fail, they say so."""
    return [f"{name} (its tests fail)" if name in failing else name for name in own]


def closer(record: Record) -> str:
    """How many bets were closer than the formulas; "" if none differs from them."""
    won = []
    for row in record.rows:
        bet, predicted, measured = (row.get(key) for key in ("bet", "predicted", "measured"))
        if bet and predicted and measured and bet != predicted:
            won.append(abs(math.log(bet / measured)) < abs(math.log(predicted / measured)))
    bets = "bet was" if len(won) == 1 else "bets were"
    return f"{bets} closer than the formula in {sum(won)} of {len(won)} lines" if won else ""


def summary(record: Record) -> str:
    """The flight in a plain sentence."""
    of = {row["what"]: row["measured"] for row in record.rows}
    said = [f"{of[PARAMETERS] / 1e6:.1f} million parameters"]
    said.append(f"{len(record.own)} of {len(OF_PROBLEM)} parts my own")
    if of[SECONDS]:
        took = of[SECONDS] * len(record.losses)
        time = f"{took / 60:.0f} minutes" if took > 90 else f"{took:.0f} seconds"
        said.append(f"{time} on a {'GPU' if record.device == 'cuda' else 'CPU'}")
    won = closer(record)
    return ", ".join(said) + (f"; my {won}" if won else "")


def card(record: Record) -> str:
    """A picture of 1200 × 630 to show: whose parts flew, what was predicted, and the losses."""
    given = [name for name in OF_PROBLEM if name not in record.own]
    own = marked(record.own, record.failing)
    said = [summary(record), *([f"my {', '.join(own)}"] if own else [])]
    said += [f"given: {', '.join(given)}"] if given else []
    drawn = [_text(60, 90, 46, record.name, "font-weight='700'")]
    for i, line in enumerate(part for text in said for part in textwrap.wrap(text, 104)):
        drawn.append(_text(60, 126 + 26 * i, 19, line))
    measured = [line for line in lines(record) if line[-2] != number(None, "")]
    for i, (name, *numbers) in enumerate(measured):
        drawn.append(_text(60, 270 + 38 * i, 16, name))
        for k, cell in enumerate(reversed(numbers)):
            drawn.append(_text(830 - 110 * k, 270 + 38 * i, 16, cell, RIGHT))
    losses = smooth(record.losses, max(1, len(record.losses) // 60))
    high, last = max(losses) or 1.0, max(1, len(losses) - 1)
    points = " ".join(
        f"{880 + 260 * i / last:.1f},{580 - 320 * loss / high:.1f}" for i, loss in enumerate(losses)
    )
    drawn.append("<path d='M880 250V580H1140' fill='none' stroke='#6b727c' stroke-width='2'/>")
    for x, y, label in ((872, 266, f"{high:.1f}"), (872, 580, "0"), (1140, 600, str(len(losses)))):
        drawn.append(_text(x, y, 15, label, RIGHT))
    drawn.append(f"<polyline points='{points}' fill='none' stroke='#2a6fdb' stroke-width='4'/>")
    last_words = printable(" ".join(list(record.samples.values())[-1].split()), 90)
    drawn.append(_text(60, 612, 17, f"It writes: {last_words}"))
    said_losses = f"loss {losses[0]:.2f} → {last_loss(record.losses):.2f} in {len(losses)} steps"
    drawn.append(_text(1140, 232, 20, said_losses, RIGHT))
    return (
        "<svg xmlns='http://www.w3.org/2000/svg' width='1200' height='630' "
        "font-family='system-ui, sans-serif' fill='#1b1d20'>"
        f"<rect width='1200' height='630' fill='#fff'/>{''.join(drawn)}</svg>\n"
    )


def _text(x: int, y: int, size: int, words: str, more: str = "") -> str:
    return f"<text x='{x}' y='{y}' font-size='{size}' {more}>{escape(words)}</text>"


def lines(record: Record) -> list[list[str]]:
    """The table's titles, and its lines: a name, the bet if there are any, and both numbers."""
    is_bet = any(row.get("bet") is not None for row in record.rows)
    keys = [*(["bet"] if is_bet else []), "predicted", "measured"]
    rows = [
        [row["what"], *(number(row.get(key), row["unit"]) for key in keys), ratio(row)]
        for row in record.rows
    ]
    return [["", *keys, "ratio"], *rows]
