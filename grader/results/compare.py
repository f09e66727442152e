"""Which tests end differently in two results of one submission."""

from dataclasses import dataclass

from grader.errors import Status
from grader.results.records import SubmissionResult

ABSENT = "absent"


@dataclass(frozen=True)
class ChangedTest:
    """A test that passes in exactly one of two results.

    Attributes:
        name: The problem and the test.
        before: How it ended in the old result; ABSENT if the old result has no such test.
        after: How it ended in the new result.
    """

    name: str
    before: str
    after: str

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
    """The tests whose outcome changes to or from passed; None stands for a result without tests."""
    was, now = _statuses(before), _statuses(after)
    changed = [ChangedTest(n, was.get(n, ABSENT), now.get(n, ABSENT)) for n in now | was]
    return [c for c in changed if c.before != c.after and Status.PASSED in (c.before, c.after)]


def _statuses(result: SubmissionResult | None) -> dict[str, str]:
    if result is None:
        return {}
    return {
        f"{problem.id}, {test.id}": str(test.status)
        for problem in result.problems
        for test in problem.tests
        if test.counts
    }
