"""How PrairieLearn runs the grader, and its results.json ("External grading").

The score is a share of the points. Without one, no attempt is taken.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.platforms.removable import Platform
from grader.report.grouped_tests import entries
from grader.report.report_contents import Reported
from kit.safe_text import printable

# PrairieLearn takes 1 MB. A character is at most four bytes in UTF-8.
CHARACTERS = 200_000


def render(reported: Reported) -> str:
    result, points = reported.result, reported.points
    message = "\n".join([reported.headline, *reported.said])
    if points is None or not result.max_score:
        return without_points(message)
    score = {"gradable": True, "score": min(1.0, points / result.max_score), "message": message}
    if result.has_grader_error:
        return _text(score)
    shown = entries(result, reasons=reported.shows.reasons)
    room = CHARACTERS // max(1, len(shown))
    tests = [
        {
            "name": printable(one.name, room),
            "points": one.earned,
            "max_points": 0.0 if one.is_pending else one.worth,  # of 0: no points are at stake yet
            "output": printable("\n".join(one.lines), room),
        }
        for one in shown
    ]
    return _text({**score, "tests": tests})


def without_points(text: str) -> str:
    """A results.json that costs no points and no attempt, and says why."""
    return _text({"gradable": False, "message": text})


def nothing_earned(text: str, problems: Iterable[str]) -> str:
    """A results.json for what cannot be graded, for which PrairieLearn takes no attempt."""
    del problems  # one score is for all
    return _text({"gradable": False, "format_errors": [text]})


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


PLATFORM = Platform(
    name="PrairieLearn",
    home=Path("/grade"),
    submission="student",
    result="results/results.json",
    render=render,
    without_points=without_points,
    nothing_earned=nothing_earned,
)
