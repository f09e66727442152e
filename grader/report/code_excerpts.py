"""The lines of a submission that a report quotes, safe to show and with syntax colours."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from grader.report.failure_places import MAX_WIDTH, Place, place_of
from grader.report.lost_points import Reason
from kit.safe_text import one_line

MAX_LINES = 60  # of a definition
AROUND = 4  # lines shown before and after the line of a failure
DOCSTRING = re.compile(r"[rRuUbB]{0,2}(\"\"\"|''')")


@dataclass(frozen=True)
class QuotedLine:
    number: int  # its number in the file, from 1
    html: Markup  # its text as HTML, escaped and coloured
    is_marked: bool  # whether the failure happened here
    follows: bool  # whether it directly follows the previous line of the excerpt


@dataclass(frozen=True)
class Excerpt:
    path: str  # the file, such as "assignment/linear.py"
    lines: list[QuotedLine]


def excerpt(reason: Reason, sources: Mapping[str, bytes]) -> Excerpt | None:
    """The lines around a failure, or else the function that gave a wrong answer, or None."""
    place = place_of(reason, sources)
    if place is None:
        return None
    if place.is_exact:
        number = place.numbers[0]
        near = range(max(1, number - AROUND), min(len(place.lines), number + AROUND) + 1)
        return _shown(place, list(near), number)
    return _shown(place, _without_docstrings(place.lines, list(place.numbers))[:MAX_LINES], None)


def _without_docstrings(lines: list[str], numbers: list[int]) -> list[int]:
    """Drop docstrings, with three quotes after a colon, and blank lines beside a gap."""
    kept: list[int] = []
    ends_with = ""
    for number in numbers:
        line = lines[number - 1].strip()
        if ends_with:
            ends_with = "" if ends_with in line else ends_with
        elif (quote := DOCSTRING.match(line)) and kept and lines[kept[-1] - 1].strip()[-1:] == ":":
            ends_with = "" if quote[1] in line[quote.end() :] else quote[1]
        elif line or (kept and kept[-1] == number - 1):
            kept.append(number)
    while kept and not lines[kept[-1] - 1].strip():
        kept.pop()
    return kept


def _shown(place: Place, numbers: list[int], marked: int | None) -> Excerpt:
    texts = [_text(place.lines[number - 1]) for number in numbers]
    coloured = highlight("\n".join(texts), LEXER, FORMATTER).split("\n")
    found = [
        QuotedLine(
            number, Markup(html), number == marked, place == 0 or numbers[place - 1] == number - 1
        )
        for place, (number, html) in enumerate(zip(numbers, coloured, strict=False))
    ]
    return Excerpt(place.path, found)


def _text(line: str) -> str:
    """A line with its indentation; unsafe characters become escapes."""
    text = line[: MAX_WIDTH * 2].expandtabs(4)[: MAX_WIDTH * 2]
    inside = text.lstrip(" ")
    return " " * (len(text) - len(inside)) + one_line(inside, MAX_WIDTH)


LEXER = PythonLexer(stripnl=False, ensurenl=False)
# Colours come from CSS classes, because a page's content policy allows no style attributes.
FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
