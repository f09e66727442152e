"""Which tests end differently in two results of one submission."""

from dataclasses import dataclass

from grader.base.errors import Status
from grader.results.records import SubmissionResult

ABSENT = "absent"


@dataclass(frozen=True)
class ChangedTest:
    """A test that ends differently in two results."""

    name: str  # the problem and the test
    before: str  # how it ended in the old result; ABSENT if the old result has no such test
    after: str  # how it ended in the new result

    @property
    def gains_or_loses(self) -> bool:
        """Whether it passes in exactly one of the results."""
        return Status.PASSED in (self.before, self.after)

    @property
    def passes(self) -> bool:
        """Whether it passes in the new result."""
        return self.after == Status.PASSED

    @property
    def text(self) -> str:
        """The change in one line."""
        return f"{self.name}: {self.before}, now {self.after}"


def changed_tests(
    before: SubmissionResult | None, after: SubmissionResult | None
) -> list[ChangedTest]:
    """The tests with different outcomes; None stands for a result without tests."""
    was, now = _statuses(before), _statuses(after)
    both = [ChangedTest(n, was.get(n, ABSENT), now.get(n, ABSENT)) for n in now | was]
    return [test for test in both if test.before != test.after]


def _statuses(result: SubmissionResult | None) -> dict[str, str]:
    if result is None:
        return {}
    return {
        f"{problem.id}, {test.id}": str(test.status)
        for problem in result.problems
        for test in problem.tests
        if test.counts
    }
