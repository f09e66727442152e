"""The words that all reports share: untrusted text, numbers and points."""

import math
import re
from collections.abc import Sequence

from kit.safe_text import one_line

MAX_TEXT = 1_000  # characters of a text, after its unsafe characters have become escapes
# Where a web site would make a link or a mention.
LINKS = re.compile(r"@|#|:(?=//)|www(?=\.)|\bGH(?=-\d)", re.IGNORECASE)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Untrusted text as one short line in which unsafe characters are shown as escapes."""
    line = one_line(text, limit)
    return line if len(line) <= limit + 1 else line[:limit] + "…"


def unlinked(text: str) -> str:
    """A text with zero-width spaces, so that no web site makes a link or a mention of a part."""
    return LINKS.sub("\\g<0>\u200b", text)


def number(value: float, decimals: int = 2) -> str:
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def half_up(value: float) -> int:
    """The nearest whole number; a half is rounded up, in the student's favour."""
    return math.floor(value + 0.5)


def whole_parts(parts: Sequence[float]) -> list[int]:
    """Numbers rounded down or up, by their fractions, so that they add up to their rounded sum."""
    found = [math.floor(part + 1e-9) for part in parts]
    by_fraction = sorted(range(len(parts)), key=lambda i: found[i] - parts[i])
    for place in by_fraction[: half_up(math.fsum(parts)) - sum(found)]:
        found[place] += 1
    return found


def in_points(points: float) -> str:
    """Points as text with their unit, as in `1 point` or `2.5 points`."""
    return "1 point" if number(points) == "1" else f"{number(points)} points"


def in_column(points: float) -> str:
    """Points in a column of scores: whole numbers without decimals, fractions with two."""
    return f"{points:.2f}".removesuffix(".00")


def duration(seconds: float) -> str:
    """A duration in words: "12 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
