"""Gradescope's results.json ("Autograder Specifications"): a box per entry of `tests`."""

import json
from typing import Any

from grader.course.late_policy import Shows
from grader.report.grouped_tests import ReportEntry, entries
from grader.report.report_contents import Reported
from grader.report.shared_wording import clean


def render(reported: Reported) -> str:
    """The text of results.json.

    If the grader failed, it has no `tests`, and no `score` unless a person gave points. Gradescope
    then offers a new run instead of recording 0.
    """
    result, shows, points = reported.result, reported.shows, reported.points
    score = {} if points is None else {"score": round(points, 4)}
    shown = [] if result.has_grader_error else entries(result, reasons=shows.reasons)
    grader = result.grader
    versions = {"grader": clean(grader.version), "suite_sha256": clean(grader.suite_sha256)}
    attempt = {} if reported.attempt is None else {"attempt": reported.attempt}
    # Gradescope adds the nickname that the student chose.
    entry = {"name": "Points", "value": round(points or 0.0, 2), "order": "desc"}
    return _text(
        {
            **score,
            "execution_time": round(result.seconds, 2),
            "output": "\n".join([*reported.said]),
            "output_format": "text",
            "visibility": shows.results,
            "stdout_visibility": shows.printed,
            "extra_data": {**versions, **attempt},
            **({} if points is None or not shows.leaderboard else {"leaderboard": [entry]}),
            **({"tests": [_test(entry, shows) for entry in shown]} if shown else {}),
        }
    )


def without_points(text: str) -> str:
    """A results.json without a score, for which Gradescope offers a new run; it says why."""
    return _text(_said(text))


def nothing_earned(text: str) -> str:
    """A results.json of 0 points for a submission that cannot be graded; it says why."""
    return _text({"score": 0.0, **_said(text)})


def _said(text: str) -> dict[str, Any]:
    return {"output": text, "output_format": "text", "visibility": "visible"}


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _test(entry: ReportEntry, shows: Shows) -> dict[str, Any]:
    """One test. A pending one has neither score nor status, because its points are not lost."""
    score = {"score": entry.earned, "status": "passed" if entry.passed else "failed"}
    return {
        **({} if entry.is_pending else score),
        "max_score": entry.worth,
        "name": entry.name,
        "number": entry.number,
        "output": "\n".join(entry.lines),
        "output_format": "text",
        **({"visibility": shows.tests} if shows.tests else {}),
    }
