"""Progress as Markdown, for a workflow's summary.

Text from a student's code (an exception's message, the name of its class) is put in code blocks
that this text cannot close.
"""

import re

from kit.safe_text import printable
from kit.student_command.public_outcomes import RunOutcome

ADVISORY = (
    "**Advisory:** only the public tests. "
    "Points come from the course's grader, whose hidden tests check more cases."
)
LONGEST = 20_000  # characters of a block; GitHub shows no summary above 1 MiB


def render(outcome: RunOutcome) -> str:
    """Format the headline and one row per problem, then the first failure and the next step.

    If the run was stopped, the page shows where, instead of the first failure and the next step."""
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


def _table(outcome: RunOutcome) -> str:
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
    """Put text in a fence that is longer than any run of backticks in the text."""
    shown = printable(text, LONGEST)[:LONGEST]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def _cell(value: object) -> str:
    """Put text on one line, with all marks of Markdown and HTML escaped."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", printable(str(value), LONGEST).replace("\n", " "))
