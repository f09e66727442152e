"""How Autolab runs the grader, and reads its output, after the "Guide for Lab Authors".

Autolab shows the whole output to the student. Its last line is a JSON object with the points of
each problem, and the student's row of a scoreboard. Without that line, no score is recorded.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from grader.base.errors import Status
from grader.platforms.removable import Platform
from grader.report.grouped_tests import entries
from grader.report.report_contents import Reported
from grader.report.shared_wording import clean, in_points, number

# Separates the students' texts from the last line, so that none of them is read as formatting.
ABOVE_THE_SCORES = "The next line is for Autolab:"


def render(reported: Reported) -> str:
    """The output with the tests' points, before Autolab's penalty; none if the grader failed."""
    result = reported.result
    lines = [reported.headline, *reported.said]
    if result.has_grader_error:
        return without_points("\n".join(lines))
    for problem in result.problems:
        points = f"{number(problem.score)} of {in_points(problem.max_score)}"
        lines.append(f"  {clean(problem.id)}: {points}, {problem.status.words}")
    for entry in entries(result, reasons=reported.shows.reasons):
        if not entry.passed:
            lines += ["", entry.name, *(f"  {line}" for line in entry.lines)]
    scores = {
        clean(one.id): round(one.score, 4)
        for one in result.problems
        if one.status is not Status.DEFERRED
    }
    return _text(lines, scores, result.score)


def without_points(text: str) -> str:
    """An output without a score, which says why."""
    return f"{text}\n"


def nothing_earned(text: str, problems: Iterable[str]) -> str:
    """An output of 0 points for a submission that cannot be graded; it says why."""
    return _text([text], dict.fromkeys(problems, 0), 0)


def _text(lines: list[str], scores: Mapping[str, float], total: float) -> str:
    last = json.dumps({"scores": scores, "scoreboard": [round(total, 2)]})
    return "\n".join([*lines, "", ABOVE_THE_SCORES, last]) + "\n"


PLATFORM = Platform(
    name="Autolab",
    home=Path(),
    submission="handin.zip",
    result="feedback.txt",
    render=render,
    without_points=without_points,
    nothing_earned=nothing_earned,
)
