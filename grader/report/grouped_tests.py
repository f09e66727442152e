"""The tests of a problem that passed, or failed for one reason, as one test with their points."""

from dataclasses import dataclass
from decimal import Decimal

from grader.base.errors import Status
from grader.report.lost_points import Reason, cause, grouped
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


@dataclass(frozen=True)
class ReportEntry:
    """Tests of one problem that ended alike."""

    name: str  # the problem, the number of tests, and how they ended
    number: str  # "3.2" for the second entry of the third problem
    worth: float  # the points, with two decimals
    passed: bool  # whether the tests passed
    is_pending: bool  # whether they wait for another device; their points are not lost
    lines: list[str]  # what a student should read

    @property
    def earned(self) -> float:
        return self.worth if self.passed else 0.0


def entries(result: SubmissionResult, *, reasons: bool) -> list[ReportEntry]:
    """The entries of all problems, of a result without faults of the grader."""
    found = []
    for place, problem in enumerate(result.problems, start=1):
        # First the tests that passed, then a group for each cause of failure.
        tests = sorted(problem.counted, key=lambda test: test.status is not Status.PASSED)
        groups = grouped(problem, tests, lambda test: (test.status, cause(test)))
        for part, (group, worth) in enumerate(zip(groups, _worth(groups), strict=True), start=1):
            found.append(_entry(group, float(worth), f"{place}.{part}", reasons=reasons))
    return found


def _worth(groups: list[Reason]) -> list[Decimal]:
    """The points of each entry with two decimals; the largest has what is left of a cent."""
    exact = [group.points for group in groups]
    worth = [Decimal(cents) / 100 for cents in whole_parts([100 * points for points in exact])]
    if worth:
        of = Decimal(str(groups[0].problem.max_score))
        worth[exact.index(max(exact))] += of - sum(worth)
    return worth


def _entry(group: Reason, worth: float, number: str, *, reasons: bool) -> ReportEntry:
    status = group.first.status
    count = counted(len(group.tests), "test")
    return ReportEntry(
        name=f"{clean(group.problem.id)}: {count} {ENDED[status]}",
        number=number,
        worth=worth,
        passed=status is Status.PASSED,
        is_pending=status is Status.DEFERRED,
        lines=_explained(group) if reasons else [_names(group)],
    )


def _explained(group: Reason) -> list[str]:
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
