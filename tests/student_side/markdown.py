"""Progress as Markdown, for the summary of a workflow.

What a student's code says (an exception's message, the name of its class) stands in code blocks that it cannot end.
"""

import re

from tests.student_side.progress import Outcome

ADVISORY = "**Advisory:** the public tests alone. Points come from the staff's grader, whose hidden tests look at more cases."
LONGEST = 20_000  # characters of a block; GitHub shows no summary above 1 MiB


def render(outcome: Outcome) -> str:
    """The headline, a row a problem, then the first failure and the next thing to do, or where it was stopped."""
    parts = [f"# Public tests: {outcome.done}", ADVISORY, _table(outcome), f"{outcome.passed}."]
    if outcome.stopped:
        parts.append(_section("Stopped", outcome.stopped))
    else:
        if outcome.first_failure:
            parts.append(_section("First failure", str(outcome.first_failure)))
        if outcome.notes:
            parts.append(_section("Notes", "\n".join(outcome.notes)))
        parts.append(_section("Next", outcome.next_step))
    return "\n\n".join(parts) + "\n"


def _table(outcome: Outcome) -> str:
    lines = ["| problem | points | tests that pass | status |", "| --- | ---: | ---: | --- |"]
    for row in outcome.rows:
        cells = [
            row.problem["id"],
            row.problem["points"],
            f"{row.passed} of {row.tests}",
            row.status or "not run",
        ]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{_block(text)}"


def _block(text: str) -> str:
    """Text as it is, in a fence that is longer than any run of backticks in it."""
    shown = _visible(text)[:LONGEST]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def _cell(value: object) -> str:
    """Text in one line, with no mark of Markdown or HTML in it."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", _visible(str(value)).replace("\n", " "))


def _visible(text: str) -> str:
    """Characters that are not plain as escapes: control characters, directions of writing, halves of a character."""
    return "".join(
        c if c == "\n" or c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )
