"""Why points were lost: each mistake or failure once, with all the tests that it failed."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from grader.base.errors import Status
from grader.report.shared_wording import clean
from grader.results.result_records import WORST_FIRST, ProblemResult, SubmissionResult, TestResult
from kit.safe_text import labelled

QUIET = (Status.PASSED, Status.NOT_ATTEMPTED, Status.DEFERRED)


@dataclass(frozen=True)
class Reason:
    """Tests of one problem that ended alike, such as all those that one mistake failed."""

    problem: ProblemResult
    tests: list[TestResult]

    @property
    def first(self) -> TestResult:
        """The test whose message speaks for all."""
        return self.tests[0]

    @property
    def head(self) -> str:
        """What happened, after the problem's id."""
        return self.first.head(self.problem.id)

    @property
    def fact_lines(self) -> list[str]:
        return [labelled(clean(fact.label, 20), clean(fact.text)) for fact in self.first.facts]

    @property
    def rules(self) -> list[str]:
        """The rules that it broke, each once."""
        return list(dict.fromkeys(test.rule for test in self.tests if test.rule))

    @property
    def points(self) -> float:
        """The points that the tests are worth, which a failure costs."""
        return sum(test.max_score for test in self.tests)

    @property
    def share(self) -> str:
        """How many of the problem's tests these are, in words."""
        return f"{len(self.tests)} of {len(self.problem.counted)} tests"

    @property
    def is_ours(self) -> bool:
        return self.first.status is Status.GRADER_ERROR


def cause(test: TestResult) -> tuple[str, ...]:
    """What tests that failed for one reason share: a known mistake, or what, where and hint."""
    if test.status in QUIET or test.mistake:
        return (test.mistake,) * bool(test.mistake)
    places = [fact.text for fact in test.facts if fact.label == "at"]
    return (test.said, test.hint or "", *places)


def grouped(
    problem: ProblemResult, tests: Iterable[TestResult], key: Callable[[TestResult], Hashable]
) -> list[Reason]:
    """A reason for each key that some tests of a problem have, in the order of the tests."""
    groups: dict[Hashable, list[TestResult]] = {}
    for test in tests:
        groups.setdefault(key(test), []).append(test)
    return [Reason(problem, group) for group in groups.values()]


def reasons_in(result: SubmissionResult) -> list[Reason]:
    """Every reason for a failure: faults of the grader first, then the most expensive."""
    found = [
        reason
        for problem in result.problems
        for reason in grouped(problem, [t for t in problem.tests if t.status not in QUIET], cause)
    ]
    return sorted(
        found, key=lambda r: (not r.is_ours, -r.points, WORST_FIRST.index(r.first.status))
    )
