"""The pages of `grader similar`: a ranked table, and for each pair the two sources side by side."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.report import pages
from grader.similarity.pairs import Pair, Work, lines
from kit.text import one_line

TEMPLATES = Path(__file__).parent / "templates"
MAX_LINES = 3_000  # of one file
MAX_WIDTH = 200  # characters of a line
WIDE = 160  # the width in columns if stdout is not a terminal
AROUND = 3  # lines that are shown before and after similar lines
LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Line:
    """One line of a source; `is_far` means that no similar line is near."""

    number: int
    text: str
    is_alike: bool
    is_far: bool


@dataclass(frozen=True)
class SideBySide:
    """One file of both submissions."""

    path: str
    share: float
    one: list[Line]
    other: list[Line]


def index(
    pairs: Sequence[Pair],
    names: Sequence[str],
    *,
    title: str,
    threshold: float,
    count: int,
    link: Callable[[int], str],
) -> str:
    """The ranked table.

    Args:
        pairs: The pairs, the most alike first.
        names: The names of the students, by number.
        title: The assignment's title.
        threshold: The smallest overlap.
        count: How many submissions were compared.
        link: The address of a pair's page, by its place in the table.
    """
    return _render(
        "similar.html", title=f"{title}: similar submissions", pairs=pairs, names=names,
        heading=title, threshold=threshold, count=count, links=[link(n) for n in range(len(pairs))],
    )  # fmt: skip


def table(pairs: Sequence[Pair], names: Sequence[str], *, count: int, threshold: float) -> str:
    """The ranked table for a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    rows = Table(box=None, pad_edge=False)
    rows.add_column("overlap", justify="right")
    for name in ("students", "most alike"):
        rows.add_column(name, overflow="fold")
    for pair in pairs:
        files = ", ".join(f"{path} {100 * share:.0f} %" for path, share in pair.files[:2])
        both = f"{names[pair.one]} and {names[pair.other]}"
        rows.add_row(f"{pair.overlap:.2f}", Text(both), Text(files))
    with console.capture() as text:
        if pairs:
            console.print(rows)
        console.print(
            f"{count} submissions; {len(pairs)} pairs with an overlap of at least {threshold:g}"
        )
        console.print("a reason to look, not a finding: read both sources first")
    return "".join(line.rstrip() + "\n" for line in text.get().splitlines())


def side_by_side(
    pair: Pair,
    names: Sequence[str],
    sources: Callable[[int], Mapping[str, bytes]],
    works: Sequence[Work],
) -> str:
    """The page of one pair: the similar files, with the similar lines marked.

    Args:
        pair: The pair.
        names: The names of the students, by number.
        sources: The sources of a student, by number.
        works: Their fingerprints, by number.
    """
    files = []
    for path, share in pair.files:
        both = [
            _lines(sources(n)[path], lines(works[n].files[path], pair.shared))
            for n in (pair.one, pair.other)
        ]
        if any(line.is_alike for line in both[0]):
            files.append(SideBySide(path, share, *both))
    both_names = f"{names[pair.one]} and {names[pair.other]}"
    return _render("pair.html", title=both_names, pair=pair, names=names, files=files)


def _lines(source: bytes, alike: set[int]) -> list[Line]:
    texts = LINE_END.split(source.decode("utf-8", "replace"))[:MAX_LINES]
    near = {n + d for n in alike for d in range(-AROUND, AROUND + 1)}
    return [
        Line(number, _text(text), number in alike, number not in near)
        for number, text in enumerate(texts, start=1)
    ]


def _text(line: str) -> str:
    text = line.expandtabs(4)
    inside = text.lstrip(" ")
    return " " * min(MAX_WIDTH, len(text) - len(inside)) + one_line(inside, MAX_WIDTH)


def _render(template: str, *, title: str, **values: Any) -> str:
    style = (TEMPLATES / "similar.css").read_text(encoding="utf-8")
    return pages.render(template, title=title, folder=TEMPLATES, styles=[style], **values)
