"""The result as Gradescope's results.json.

Gradescope shows one box per entry of `tests`. The tests of a problem share a box if they passed, or
if they failed for the same reason. The entries' `max_score` add up to the points of the assignment.
"""

import json
from decimal import Decimal
from typing import Any

from grader.base.errors import Status
from grader.course.policies import Shows
from grader.report.remarks import Standing, clean, final_points, remarks
from grader.results.records import ProblemResult, SubmissionResult, TestResult

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
QUIET = (Status.PASSED, Status.NOT_ATTEMPTED, Status.DEFERRED)
PENDING = "These tests need another device and have not run yet. Their points are not lost."


EVERYTHING = Shows()


def render(
    result: SubmissionResult, standing: Standing | None = None, shows: Shows = EVERYTHING
) -> str:
    """The text of results.json."""
    return as_text(results(result, standing, shows))


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


def results(
    result: SubmissionResult, standing: Standing | None = None, shows: Shows = EVERYTHING
) -> dict[str, Any]:
    """The content of results.json.

    If the grader failed, the content has no `tests`, and no `score` unless a person gave points.
    Gradescope then offers a new run instead of recording 0.

    Args:
        result: What to report.
        standing: The student's grade, which replaces the result's score.
        shows: What students see.
    """
    points = final_points(result, standing)
    score = {} if points is None else {"score": round(points, 4)}
    tests = {} if result.has_grader_error else {"tests": _tests(result, shows)}
    return {
        **score,
        "execution_time": round(result.seconds, 2),
        "output": "\n".join(remarks(result, standing)),
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
        groups = _groups(problem)
        for part, (tests, worth) in enumerate(zip(groups, _worth(problem, groups), strict=True), 1):
            entries.append(_entry(problem, tests, worth, f"{place}.{part}", shows))
    return entries


def _groups(problem: ProblemResult) -> list[list[TestResult]]:
    """The tests of each entry: first those that passed, then a group for each failure's reason."""
    groups: dict[tuple[Status, str], list[TestResult]] = {}
    counted = [test for test in problem.tests if test.counts]
    for test in sorted(counted, key=lambda test: test.status is not Status.PASSED):
        reason = "" if test.status in QUIET else test.mistake or test.said
        groups.setdefault((test.status, reason), []).append(test)
    return list(groups.values())


def _worth(problem: ProblemResult, groups: list[list[TestResult]]) -> list[Decimal]:
    """The points of each entry with two decimals; the largest absorbs the rounding error."""
    exact = [sum(test.max_score for test in tests) for tests in groups]
    worth = [round(Decimal(points), 2) for points in exact]
    if worth:
        worth[exact.index(max(exact))] += Decimal(str(problem.max_score)) - sum(worth)
    return worth


def _entry(
    problem: ProblemResult, tests: list[TestResult], worth: Decimal, number: str, shows: Shows
) -> dict[str, Any]:
    """One entry. A pending entry has neither score nor status, because its points are not lost."""
    status, points = tests[0].status, float(worth)
    passed = status is Status.PASSED
    score = {"score": points if passed else 0.0, "status": "passed" if passed else "failed"}
    count = "1 test" if len(tests) == 1 else f"{len(tests)} tests"
    return {
        **({} if status is Status.DEFERRED else score),
        "max_score": points,
        "name": f"{clean(problem.id)}: {count} {ENDED[status]}",
        "number": number,
        "output": "\n".join(_output(problem, tests) if shows.reasons else [_names(tests)]),
        "output_format": "text",
        "visibility": shows.tests,
    }


def _output(problem: ProblemResult, tests: list[TestResult]) -> list[str]:
    """The lines that explain an entry."""
    first = tests[0]
    names = _names(tests)
    if first.status is Status.PASSED:
        return [names]
    if first.status is Status.DEFERRED:
        return [PENDING, names]
    lines = [clean(first.head(problem.id))] if first.what else []
    lines += [f"  {clean(fact.label, 20):<9} {clean(fact.text)}" for fact in first.facts]
    lines += [f"looks like: {clean(first.mistake)}"] if first.mistake else []
    if first.status is not Status.NOT_ATTEMPTED:  # a stub has broken no rule
        rules = dict.fromkeys(test.rule for test in tests if test.rule)
        lines += [f"rule: {clean(rule)}" for rule in rules]
    lines += [f"hint: {clean(first.hint)}"] if first.hint else []
    return [*lines, f"tests: {names}"]


def _names(tests: list[TestResult]) -> str:
    return clean(", ".join(test.id for test in tests))
