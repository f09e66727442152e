"""The lines of a submission that a report quotes, safe to show and with syntax colours.

The source is not parsed, because an untrusted file may contain anything. Definitions are found by
searching lines for the words `def` and `class`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from grader.report.reasons import Reason
from kit import handing_in
from kit.text import one_line

MAX_LINES = 60  # of a definition
AROUND = 4  # lines shown before and after the line of a failure
MAX_WIDTH = 160  # characters of a line
# Of a source that is searched; a page may have two hundred excerpts.
MAX_SOURCE = 400_000  # bytes
MAX_SEARCHED = 10_000  # lines
MAX_NAMES = 3  # definitions inside each other, as in "Model.Layer.forward"
PLACE = re.compile(r"(assignment/[\w/]+\.py):(\d+)", re.ASCII)
LINE_END = re.compile(r"\r\n|\r|\n")
DOCSTRING = re.compile(r"[rRuUbB]{0,2}(\"\"\"|''')")


@dataclass(frozen=True)
class QuotedLine:
    """One line of an excerpt.

    Attributes:
        number: Its number in the file, from 1.
        html: Its text as HTML, escaped and coloured.
        is_marked: Whether the failure happened here.
        follows: Whether it directly follows the previous line of the excerpt.
    """

    number: int
    html: Markup
    is_marked: bool
    follows: bool


@dataclass(frozen=True)
class Excerpt:
    """Some lines of one file.

    Attributes:
        path: The file, such as "assignment/linear.py".
        lines: The lines.
    """

    path: str
    lines: list[QuotedLine]


def excerpt(reason: Reason, sources: Mapping[str, bytes]) -> Excerpt | None:
    """The student's lines that explain a failure.

    These are the lines around the place of the failure or, if the place is unknown, the lines of
    the function that gave a wrong answer. None if neither is in the sources.
    """
    first = reason.first
    places = (PLACE.match(fact.text) for fact in first.facts if fact.label == "at")
    if place := next(filter(None, places), None):
        path, number = place[1], int(place[2])
        lines = _lines(sources.get(path, b""))
        near = range(max(1, number - AROUND), min(len(lines), number + AROUND) + 1)
        return _shown(path, lines, list(near), number) if number in near else None
    path = handing_in.path_of(reason.problem.module)
    lines = _lines(sources.get(path, b""))
    numbers = _definition(lines, first.about.split("."))
    return _shown(path, lines, numbers, None) if numbers else None


def _lines(source: bytes) -> list[str]:
    """The lines by Python's line numbers; `splitlines` would also split at other characters."""
    text = source[:MAX_SOURCE].decode("utf-8", errors="replace")
    return LINE_END.split(text, MAX_SEARCHED)[:MAX_SEARCHED]


def _definition(lines: list[str], names: list[str]) -> list[int]:
    """The numbers of the lines of a definition such as ["Linear", "forward"], without docstrings.

    If the class has no such method, the lines of the class; an empty list if there is no class.
    """
    body, found = range(len(lines)), False
    for name in names[:MAX_NAMES]:
        head = re.compile(rf"(\s*)(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b")
        # If a name is defined several times, Python uses the last definition.
        starts = [i for i in body if head.match(lines[i][:MAX_WIDTH])] if name else []
        if not starts:
            break
        body, found = range(starts[-1], _end(lines, starts[-1], body.stop)), True
    return _without_docstrings(lines, [i + 1 for i in body])[:MAX_LINES] if found else []


def _end(lines: list[str], start: int, stop: int) -> int:
    """The end of a block: the first later line that is not indented more than its first line."""
    depth = _depth(lines[start])
    for i in range(start + 1, stop):
        line = lines[i].strip()
        if line and _depth(lines[i]) <= depth and line[0] not in ")]}#":
            return i
    return stop


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_docstrings(lines: list[str], numbers: list[int]) -> list[int]:
    """Drop the numbers of docstrings, and of blank lines next to a gap or at the end.

    A string counts as a docstring if it starts a line, has three quotes, and follows a colon.
    """
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


def _shown(path: str, lines: list[str], numbers: list[int], marked: int | None) -> Excerpt:
    texts = [_text(lines[number - 1]) for number in numbers]
    coloured = highlight("\n".join(texts), LEXER, FORMATTER).split("\n")
    found = [
        QuotedLine(
            number, Markup(html), number == marked, place == 0 or numbers[place - 1] == number - 1
        )
        for place, (number, html) in enumerate(zip(numbers, coloured, strict=False))
    ]
    return Excerpt(path, found)


def _text(line: str) -> str:
    """A line with its indentation; unsafe characters become escapes."""
    text = line[: MAX_WIDTH * 2].expandtabs(4)[: MAX_WIDTH * 2]
    inside = text.lstrip(" ")
    return " " * (len(text) - len(inside)) + one_line(inside, MAX_WIDTH)


LEXER = PythonLexer(stripnl=False, ensurenl=False)
# Colours come from CSS classes, because a page's content policy allows no style attributes.
FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
