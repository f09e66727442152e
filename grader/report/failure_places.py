"""Where a failure happened in a student's code, found without parsing what may contain anything."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from grader.report.lost_points import Reason
from kit import handing_in

# Of a source that is searched; a page may have two hundred excerpts.
MAX_SOURCE = 400_000  # bytes
MAX_SEARCHED = 10_000  # lines
MAX_WIDTH = 160  # characters of a line
MAX_NAMES = 3  # definitions inside each other, as in "Model.Layer.forward"
PLACE = re.compile(r"(assignment/[\w/]+\.py):(\d+)", re.ASCII)
LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Place:
    """The lines that explain a failure."""

    path: str  # the file, such as "assignment/linear.py"
    lines: list[str]  # all its lines
    numbers: range  # the numbers of the lines that explain it, from 1
    # Whether that is the very line; otherwise it is the definition that gave a wrong answer.
    is_exact: bool


def place_of(reason: Reason, sources: Mapping[str, bytes]) -> Place | None:
    """Where a failure happened, or else the function that gave a wrong answer, or None."""
    first = reason.first
    exact = (PLACE.match(fact.text) for fact in first.facts if fact.label == "at")
    if match := next(filter(None, exact), None):
        path, number = match[1], int(match[2])
        lines = _lines(sources.get(path, b""))
        there = path in sources and 1 <= number <= len(lines)
        return Place(path, lines, range(number, number + 1), is_exact=True) if there else None
    path = handing_in.path_of(reason.problem.module)
    lines = _lines(sources.get(path, b""))
    numbers = _definition(lines, first.about.split("."))
    return Place(path, lines, numbers, is_exact=False) if numbers else None


def _lines(source: bytes) -> list[str]:
    """The lines by Python's line numbers; `splitlines` would also split at other characters."""
    text = source[:MAX_SOURCE].decode("utf-8", errors="replace")
    return LINE_END.split(text, MAX_SEARCHED)[:MAX_SEARCHED]


def _definition(lines: list[str], names: list[str]) -> range:
    """The numbers of the lines of `Linear.forward`, or else of `Linear`, or else none."""
    body, found = range(len(lines)), False
    for name in names[:MAX_NAMES]:
        head = re.compile(rf"(\s*)(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b")
        # If a name is defined several times, Python uses the last definition.
        starts = [i for i in body if head.match(lines[i][:MAX_WIDTH])] if name else []
        if not starts:
            break
        body, found = range(starts[-1], _end(lines, starts[-1], body.stop)), True
    return range(body.start + 1, body.stop + 1) if found else range(0)


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
