"""The result as Gradescope's results.json.

Gradescope shows one box per entry of `tests`. The tests of a problem share a box if they passed, or
if they failed for the same reason. The entries' `max_score` add up to the points of the assignment.
"""

import json
from decimal import Decimal
from typing import Any

from grader.base.errors import Status
from grader.course.policies import Shows
from grader.report.reasons import Reason, cause, grouped
from grader.report.reported import Reported
from grader.report.wording import clean, whole_parts
from grader.results.records import SubmissionResult

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
    """The text of results.json."""
    return as_text(results(reported))


def as_text(content: dict[str, Any]) -> str:
    """The text of a results.json with this content."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def without_points(text: str) -> dict[str, Any]:
    """A result without a score, not even 0, that says why.

    Gradescope shows it as a failed run and offers a new run.
    """
    return {"output": text, "output_format": "text", "visibility": "visible"}


def nothing_earned(text: str) -> dict[str, Any]:
    """A result of 0 points for a submission that cannot be graded; it says why."""
    return {"score": 0.0, **without_points(text)}


def results(reported: Reported) -> dict[str, Any]:
    """The content of results.json.

    If the grader failed, the content has no `tests`, and no `score` unless a person gave points.
    Gradescope then offers a new run instead of recording 0.
    """
    result, shows, points = reported.result, reported.shows, reported.points
    score = {} if points is None else {"score": round(points, 4)}
    tests = {} if result.has_grader_error else {"tests": _tests(result, shows)}
    return {
        **score,
        "execution_time": round(result.seconds, 2),
        "output": "\n".join(reported.remarks),
        "output_format": "text",
        "visibility": shows.results,
        "stdout_visibility": shows.printed,
        "extra_data": {
            "grader": clean(result.grader.version),
            "suite_sha256": clean(result.grader.suite_sha256),
        },
        **tests,
    }


def _tests(result: SubmissionResult, shows: Shows) -> list[dict[str, Any]]:
    """The entries of all problems; number 3.2 is the second entry of the third problem."""
    entries = []
    for place, problem in enumerate(result.problems, start=1):
        # First the tests that passed, then a group for each cause of failure.
        tests = sorted(problem.counted, key=lambda test: test.status is not Status.PASSED)
        groups = grouped(problem, tests, lambda test: (test.status, cause(test)))
        for part, (group, worth) in enumerate(zip(groups, _worth(groups), strict=True), start=1):
            entries.append(_entry(group, worth, f"{place}.{part}", shows))
    return entries


def _worth(groups: list[Reason]) -> list[Decimal]:
    """The points of each entry with two decimals; the largest has what is left of a cent."""
    exact = [group.points for group in groups]
    worth = [Decimal(cents) / 100 for cents in whole_parts([100 * points for points in exact])]
    if worth:
        of = Decimal(str(groups[0].problem.max_score))
        worth[exact.index(max(exact))] += of - sum(worth)
    return worth


def _entry(group: Reason, worth: Decimal, number: str, shows: Shows) -> dict[str, Any]:
    """One entry. A pending entry has neither score nor status, because its points are not lost."""
    status, points = group.first.status, float(worth)
    passed = status is Status.PASSED
    score = {"score": points if passed else 0.0, "status": "passed" if passed else "failed"}
    count = "1 test" if len(group.tests) == 1 else f"{len(group.tests)} tests"
    return {
        **({} if status is Status.DEFERRED else score),
        "max_score": points,
        "name": f"{clean(group.problem.id)}: {count} {ENDED[status]}",
        "number": number,
        "output": "\n".join(_output(group)) if shows.reasons else _names(group),
        "output_format": "text",
        "visibility": shows.tests,
    }


def _output(group: Reason) -> list[str]:
    """The lines that explain an entry."""
    first, names = group.first, _names(group)
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


def _names(group: Reason) -> str:
    return clean(", ".join(test.id for test in group.tests))
