"""Gradescope's results.json ("Autograder Specifications").

An entry of its `tests` has all tests of a problem that passed, or that failed for one reason.
"""

import json
from decimal import Decimal
from typing import Any

from grader.base.errors import Status
from grader.course.late_policy import Shows
from grader.report.lost_points import Reason, cause, grouped
from grader.report.report_contents import Reported
from grader.report.shared_wording import clean, whole_parts
from grader.results.result_records import SubmissionResult
from kit.safe_text import counted

# The outcome in an entry's name, after the number of tests.
ENDED = {
    Status.PASSED: "passed",
    Status.FAILED: "failed",
    Status.NOT_ATTEMPTED: "not attempted",
    Status.CRASHED: "crashed",
    Status.TIMEOUT: "took too long",
    Status.MEMORY: "needed too much memory",
    Status.POLICY: "used what this problem forbids",
    Status.DEFERRED: "pending",
}
PENDING = "These tests need another device and have not run yet. Their points are not lost."


def render(reported: Reported) -> str:
    """The text of results.json.

    If the grader failed, it has no `tests`, and no `score` unless a person gave points. Gradescope
    then offers a new run instead of recording 0.
    """
    result, shows, points = reported.result, reported.shows, reported.points
    score = {} if points is None else {"score": round(points, 4)}
    tests = [] if result.has_grader_error else _tests(result, shows)
    grader = result.grader
    versions = {"grader": clean(grader.version), "suite_sha256": clean(grader.suite_sha256)}
    # Gradescope adds the nickname that the student chose.
    entry = {"name": "Points", "value": round(points or 0.0, 2), "order": "desc"}
    return _text(
        {
            **score,
            "execution_time": round(result.seconds, 2),
            "output": "\n".join(reported.said),
            "output_format": "text",
            "visibility": shows.results,
            "stdout_visibility": shows.printed,
            "extra_data": versions,
            **({} if points is None or not shows.leaderboard else {"leaderboard": [entry]}),
            **({"tests": tests} if tests else {}),
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


def _tests(result: SubmissionResult, shows: Shows) -> list[dict[str, Any]]:
    """The entries of all problems, numbered like "3.2" for the second one of the third problem."""
    found = []
    for place, problem in enumerate(result.problems, start=1):
        # First the tests that passed, then a group for each cause of failure.
        tests = sorted(problem.counted, key=lambda test: test.status is not Status.PASSED)
        groups = grouped(problem, tests, lambda test: (test.status, cause(test)))
        for part, (group, worth) in enumerate(zip(groups, _worth(groups), strict=True), start=1):
            found.append(_test(group, f"{place}.{part}", float(worth), shows))
    return found


def _worth(groups: list[Reason]) -> list[Decimal]:
    """The points of each entry with two decimals; the largest has what is left of a cent."""
    exact = [group.points for group in groups]
    worth = [Decimal(cents) / 100 for cents in whole_parts([100 * points for points in exact])]
    if worth:
        of = Decimal(str(groups[0].problem.max_score))
        worth[exact.index(max(exact))] += of - sum(worth)
    return worth


def _test(group: Reason, number: str, worth: float, shows: Shows) -> dict[str, Any]:
    """One entry. A pending one has neither score nor status, because its points are not lost."""
    status = group.first.status
    passed = status is Status.PASSED
    score = {"score": worth if passed else 0.0, "status": "passed" if passed else "failed"}
    names = clean(", ".join(test.id for test in group.tests))
    return {
        **({} if status is Status.DEFERRED else score),
        "max_score": worth,
        "name": f"{clean(group.problem.id)}: {counted(len(group.tests), 'test')} {ENDED[status]}",
        "number": number,
        "output": "\n".join(_explained(group, names)) if shows.reasons else names,
        "output_format": "text",
        **({"visibility": shows.tests} if shows.tests else {}),
    }


def _explained(group: Reason, names: str) -> list[str]:
    first = group.first
    if first.status is Status.PASSED:
        return [names]
    if first.status is Status.DEFERRED:
        return [PENDING, names]
    lines = [clean(group.head)] if first.what else []
    lines += group.fact_lines
    lines += [f"looks like: {clean(first.mistake)}"] if first.mistake else []
    if first.status is not Status.NOT_ATTEMPTED:  # a stub has broken no rule
        lines += [f"rule: {clean(rule)}" for rule in group.rules]
    lines += [f"hint: {clean(first.hint)}"] if first.hint else []
    return [*lines, f"tests: {names}"]
