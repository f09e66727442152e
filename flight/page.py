"""The page of all flights: curves in one picture, tables of predictions, and written samples.

The page is one file that needs nothing else.
"""

import math
import textwrap
from html import escape
from itertools import pairwise, zip_longest
from typing import Any

from flight.flying import Record
from flight.parts import OF_PROBLEM
from kit.text import printable

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 380, 52, 20, 44
COLOURS = ["#2a6fdb", "#b5500f", "#237a35", "#8b45c9", "#b02a5b", "#117a8b", "#6b727c"]
STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1d20; background: #fff; }
h1, h2 { line-height: 1.2; } svg { width: 100%; height: auto; }
svg text { fill: currentColor; font-size: 13px; }
table { border-collapse: collapse; font-size: .9em; font-variant-numeric: tabular-nums; }
td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #d9dce1; }
tr:first-child { font-weight: bold; } td:first-child, td:last-child { text-align: left; }
.samples { display: flex; gap: 1rem; flex-wrap: wrap; } .samples div { flex: 1 12rem; }
.wide { overflow-x: auto; } pre { background: #f2f4f7; padding: .75rem; white-space: pre-wrap; }
.grid { stroke: #d9dce1; } .limit { stroke: currentColor; stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #14171a; } pre { background: #20252a; }
  td { border-color: #3a3f47; } .grid { stroke: #3a3f47; } polyline { filter: brightness(1.6); }
}
"""


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


def render(records: list[Record]) -> str:
    """The whole page."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Flights</title><style>{STYLE}</style><h1>Flights</h1>",
        _curves(records),
        *map(_flight, records),
    ]
    return "\n".join(parts) + "\n"


def _level(y: float, style: str) -> str:
    """A horizontal line."""
    return f"<line class='{style}' x1='{LEFT}' x2='{WIDTH - 12}' y1='{y:.1f}' y2='{y:.1f}'/>"


def smooth(losses: list[float], width: int) -> list[float]:
    """Means of the last `width` losses."""
    return [
        sum(losses[max(0, i - width + 1) : i + 1]) / min(width, i + 1) for i in range(len(losses))
    ]


def in_text(losses: list[float], width: int = 60, height: int = 8) -> str:
    """The curve of losses for a terminal: a star for each column's mean."""
    width = min(width, len(losses))
    edges = [i * len(losses) // width for i in range(width + 1)]
    means = [sum(losses[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    if not math.isfinite(low + high):
        return "(no curve: a loss is not finite)"
    level = [round((m - low) / (high - low or 1) * (height - 1)) for m in means]
    lines = []
    for row in range(height - 1, -1, -1):
        loss = f"{low + (high - low) * row / (height - 1):6.2f}" if row in (0, height - 1) else ""
        stars = "".join("*" if at == row else " " for at in level)
        lines.append(f"{loss:>6} |{stars}".rstrip())
    last = f"{len(losses):>{max(width - 1, 5)}}"
    return "\n".join([*lines, f"{'step':>6} 1{last}"])


def _curves(records: list[Record]) -> str:
    longest = max(len(record.losses) for record in records)
    high = max(6.0, *(min(8.0, max(record.losses)) for record in records))

    def x(step: float) -> float:
        return LEFT + step / max(1, longest - 1) * (WIDTH - LEFT - 12)

    def y(loss: float) -> float:
        return TOP + (1 - min(loss, high) / high) * (HEIGHT - TOP - BOTTOM)

    drawn = []
    for loss in range(int(high) + 1):
        drawn.append(_level(y(loss), "grid"))
        drawn.append(f"<text x='{LEFT - 8}' y='{y(loss) + 4:.1f}' text-anchor='end'>{loss}</text>")
    for step in range(0, longest, _step_of(longest)):
        drawn.append(
            f"<text x='{x(step):.1f}' y='{HEIGHT - 24}' text-anchor='middle'>{step}</text>"
        )
    drawn.append(f"<text x='{WIDTH / 2}' y='{HEIGHT - 6}' text-anchor='middle'>step</text>")
    limits = [("log 256: a guess", math.log(256)), ("single bytes", records[-1].entropy)]
    for name, level in limits:
        drawn.append(_level(y(level), "limit"))
        drawn.append(
            f"<text x='{WIDTH - 14}' y='{y(level) - 5:.1f}' text-anchor='end'>{name}</text>"
        )
    keys = []
    for i, record in enumerate(records):
        colour = COLOURS[i % len(COLOURS)]
        smoothed = smooth(record.losses, max(1, longest // 60))
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in enumerate(smoothed))
        drawn.append(
            f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>"
        )
        keys.append(f"<span style='color:{colour}'>■</span> {escape(record.name)}")
    said = "; ".join(f"{r.name}: from {r.losses[0]:.2f} to {r.losses[-1]:.2f}" for r in records)
    return (
        f"<p>Loss in nats per byte, smoothed. {' &nbsp; '.join(keys)}</p>"
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='Loss by step. {escape(said)}'>"
        + "".join(drawn)
        + "</svg>"
    )


def _step_of(longest: int) -> int:
    """The distance between labels of steps: 1, 2 or 5 times a power of ten."""
    rough = max(1, longest / 8)
    power = 10 ** math.floor(math.log10(rough))
    return int(next(power * k for k in (1, 2, 5, 10) if power * k >= rough))


def _flight(record: Record) -> str:
    reasons = ["why they differ", *(row["reason"] for row in record.rows)]
    shown = [
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in (*cells, reason))}</tr>"
        for cells, reason in zip(lines(record), reasons, strict=True)
    ]
    samples = "".join(
        f"<div>{escape(name)}<pre>{escape(text)}</pre></div>"
        for name, text in record.samples.items()
    )
    return (
        f"<h2>{escape(record.name)}</h2>"
        f"<p>Your parts: {escape(', '.join(record.own) or 'none')}.</p>"
        f"<div class='wide'><table>{''.join(shown)}</table></div>"
        f"<p>What it writes after “def ”:</p><div class='samples'>{samples}</div>"
    )


def beside(samples: dict[str, str], width: int = 78) -> str:
    """The samples in columns next to each other, for a terminal."""
    each = width // max(1, len(samples)) - 2
    columns = [
        [name, "", *textwrap.wrap(printable(" ".join(text.split()), 300), each)]
        for name, text in samples.items()
    ]
    lines = zip_longest(*columns, fillvalue="")
    return "\n".join("  ".join(f"{part:<{each}}" for part in line).rstrip() for line in lines)


def card(record: Record) -> str:
    """A picture of 1200 × 630 to show: whose parts flew, what was predicted, and the losses."""
    given = [name for name in OF_PROBLEM if name not in record.own]
    said = [f"my {', '.join(record.own)}"] if record.own else []
    said += [f"given: {', '.join(given)}"] if given else []
    drawn = [f"<text x='60' y='90' font-size='46' font-weight='700'>{escape(record.name)}</text>"]
    for i, line in enumerate(part for text in said for part in textwrap.wrap(text, 104)):
        drawn.append(f"<text x='60' y='{132 + 30 * i}' font-size='21'>{escape(line)}</text>")
    for i, (name, *numbers) in enumerate(lines(record)):
        y = 270 + 38 * i
        drawn.append(f"<text x='60' y='{y}' font-size='16'>{escape(name)}</text>")
        for k, cell in enumerate(reversed(numbers)):
            place = f"x='{830 - 110 * k}' y='{y}' text-anchor='end'"
            drawn.append(f"<text {place} font-size='16'>{escape(cell)}</text>")
    losses = smooth(record.losses, max(1, len(record.losses) // 60))
    high, last = max(losses) or 1.0, max(1, len(losses) - 1)
    points = " ".join(
        f"{880 + 260 * i / last:.1f},{580 - 320 * loss / high:.1f}" for i, loss in enumerate(losses)
    )
    drawn.append("<path d='M880 250V580H1140' fill='none' stroke='#6b727c' stroke-width='2'/>")
    drawn.append(
        f"<polyline points='{points}' fill='none' stroke='{COLOURS[0]}' stroke-width='4'/>"
    )
    said_losses = f"loss {losses[0]:.2f} → {losses[-1]:.2f} in {len(losses)} steps"
    drawn.append(f"<text x='1140' y='232' text-anchor='end' font-size='20'>{said_losses}</text>")
    return (
        "<svg xmlns='http://www.w3.org/2000/svg' width='1200' height='630' "
        "font-family='system-ui, sans-serif' fill='#1b1d20'>"
        f"<rect width='1200' height='630' fill='#fff'/>{''.join(drawn)}</svg>\n"
    )


def lines(record: Record) -> list[list[str]]:
    """The table's titles, and its lines: a name, the bet if there are any, and both numbers."""
    is_bet = any(row.get("bet") is not None for row in record.rows)
    keys = [*(["bet"] if is_bet else []), "predicted", "measured"]
    rows = [
        [row["what"], *(number(row.get(key), row["unit"]) for key in keys), ratio(row)]
        for row in record.rows
    ]
    return [["", *keys, "ratio"], *rows]
