"""The result of a run: frozen records, and the JSON form in which they are written (schema 2).

A score stays exact while points are added up: each share is a Fraction, converted to float once, at
the end. Full marks therefore equal the points exactly, for a problem and for the whole course.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import msgspec

from grader.errors import Status

SCHEMA = 2
# The id of the single entry that replaces a problem's tests where they could not be run.
SUITE = "suite"

Device = Annotated[str, msgspec.Meta(pattern=r"^(cpu|cuda)\Z")]
Points = Annotated[float, msgspec.Meta(ge=0)]
Weight = Annotated[int, msgspec.Meta(ge=1)]

# A problem has the first of these statuses that any of its tests has.
WORST_FIRST = (
    Status.GRADER_ERROR,
    Status.POLICY,
    Status.CRASHED,
    Status.TIMEOUT,
    Status.MEMORY,
    Status.FAILED,
    Status.NOT_ATTEMPTED,
    Status.DEFERRED,
    Status.PASSED,
)


def worst(statuses: list[Status]) -> Status:
    """The most severe of the statuses."""
    return min(statuses, key=WORST_FIRST.index)


class Fact(msgspec.Struct, frozen=True):
    """One fact about a failure: a label of a word or two, and a line of text."""

    label: str
    text: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one hidden test ended, before points are assigned.

    All cases of a parametrized test count as one test.

    Attributes:
        id: The name of the test function, prefixed with `cuda/` if it needs a CUDA device.
        device: Where it runs, "cpu" or "cuda".
        status: How it ended.
        weight: Its weight when the problem's points are split over its tests.
        about: The subject of the message: a function of the student's code or, for a fault of the
            grader, the test. Empty if unknown.
        what: What happened, in one line; empty when it passed.
        facts: Further details for the student, one line each.
        rule: What the test requires; empty when it passed, or when something else went wrong.
        mistake: The one known mistake that explains the failure; empty if there is none, or more
            than one.
        hint: A helpful question, if the mistake or the test has one.
        seconds: Wall time of the test, including its oracle.
    """

    id: str
    device: Device = "cpu"
    status: Status
    weight: Weight
    about: str = ""
    what: str = ""
    facts: list[Fact] = []
    rule: str = ""
    mistake: str = ""
    hint: str | None = None
    seconds: float = 0.0

    @property
    def said(self) -> str:
        """What happened to which function, in one line."""
        return f"{self.about}: {self.what}" if self.about else self.what

    def head(self, problem_id: str) -> str:
        """The line of `said`, with the problem's id in front."""
        return f"{problem_id} · {self.said}" if self.about else f"{problem_id}: {self.said}"


class TestResult(Outcome, frozen=True, kw_only=True):
    """One hidden test with its points; see `problem_result`.

    Attributes:
        score: Points earned.
        max_score: Points it is worth.
    """

    __test__ = False  # keeps pytest from collecting this class as a test

    score: Points
    max_score: Points

    @property
    def counts(self) -> bool:
        """Whether a report counts the test; a deferred test that is worth nothing is left out."""
        return self.status is not Status.DEFERRED or self.max_score > 0


class ProblemResult(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its tests and their total.

    Attributes:
        id: Its id.
        module: The module of the assignment that contains it.
        device: Where its points are earned, "cpu" or "cuda".
        score: Points earned.
        max_score: What it is worth.
        pending: Points of its deferred tests; they are neither earned nor lost.
        status: See `_status`.
        tests: All its tests.
    """

    id: str
    module: str
    device: Device
    score: Points
    max_score: Points
    pending: Points
    status: Status
    tests: list[TestResult]


class Ignored(msgspec.Struct, frozen=True):
    """Something in the submission that was not graded, and the reason."""

    path: str
    reason: str


class SubmissionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was graded. `sha256` covers the graded sources only, so equal code has an equal hash."""

    name: str
    sha256: str
    files: list[str]
    ignored: list[Ignored]


class GraderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a result was graded with: enough to reproduce it.

    Attributes:
        version: The grader's version.
        suite_sha256: A hash of the tests.
        device: "cpu" or "cuda"; "cpu+cuda" for a merged result.
        isolation: What isolated the submission from this machine.
        seed: The seed of the tests' inputs.
        environment: The versions of python and torch and, for a CUDA run, the gpu, its driver and
            cuda. Empty for a merged result, whose `runs` contain it.
    """

    version: str
    suite_sha256: str
    device: str
    isolation: str
    seed: int
    environment: dict[str, str] = {}


class SubmissionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report is made from.

    Attributes:
        schema: The version of the JSON format.
        submission: What was graded.
        grader: What it was graded with.
        runs: The runs that were merged; empty for a single run.
        score: Points earned.
        max_score: Points that this run could give. Pending points are left out; they are neither
            earned nor lost.
        pending: Points of tests that need a device other than the run's.
        seconds: How long the run took.
        problems: The problems in the order of the course.
    """

    schema: int = SCHEMA
    submission: SubmissionInfo
    grader: GraderInfo
    runs: list[GraderInfo] = []
    score: Points
    max_score: Points
    pending: Points = 0.0
    seconds: float
    problems: list[ProblemResult]

    @property
    def has_grader_error(self) -> bool:
        """Whether a test met a fault of the grader.

        If so, the score must not be recorded, even if that test is worth nothing.
        """
        return any(
            test.status is Status.GRADER_ERROR
            for problem in self.problems
            for test in problem.tests
        )


def problem_result(
    problem_id: str, module: str, points: float, outcomes: Sequence[Outcome], device: str = "cpu"
) -> ProblemResult:
    """Split a problem's points over its tests by weight and add up what was earned.

    The tests of the problem's own device share the points. A test of another device gets a share
    only in a CPU problem, and only if it ran: while it is deferred it is worth nothing. So the CPU
    tests of a CUDA problem earn nothing, and a CPU run alone can give all points of a CPU problem.

    Args:
        problem_id: The problem's id.
        module: The module of the assignment that contains it.
        points: What it is worth.
        outcomes: How its tests ended; at least one must be of the problem's own device.
        device: Where its points are earned, "cpu" or "cuda".
    """
    shares = _shares(points, device, outcomes)
    tests = [
        TestResult(**{**msgspec.structs.asdict(outcome), **_worth(outcome, share)})
        for outcome, share in zip(outcomes, shares, strict=True)
    ]
    return ProblemResult(
        id=problem_id,
        module=module,
        device=device,
        score=float(_sum(Status.PASSED, outcomes, shares)),
        max_score=float(points),
        pending=float(_sum(Status.DEFERRED, outcomes, shares)),
        status=_status(tests),
        tests=tests,
    )


def _worth(outcome: Outcome, share: Fraction) -> dict[str, float]:
    return {
        "score": float(share if outcome.status is Status.PASSED else 0),
        "max_score": float(share),
    }


def _status(tests: list[TestResult]) -> Status:
    """The worst status of the tests that share the points.

    If all of those were deferred, the other tests count too.
    """
    found = [test.status for test in tests if test.max_score > 0]
    if set(found) == {Status.DEFERRED}:
        found += [test.status for test in tests if test.status is not Status.DEFERRED]
    return worst(found)


def submission_result(
    submission: SubmissionInfo,
    grader: GraderInfo,
    problems: list[ProblemResult],
    *,
    seconds: float,
    runs: Sequence[GraderInfo] = (),
) -> SubmissionResult:
    """Add up the problems from their exact shares, not from rounded scores."""
    score = pending = points = Fraction(0)
    for problem in problems:
        shares = _shares(problem.max_score, problem.device, problem.tests)
        score += _sum(Status.PASSED, problem.tests, shares)
        pending += _sum(Status.DEFERRED, problem.tests, shares)
        points += Fraction(problem.max_score)
    return SubmissionResult(
        submission=submission,
        grader=grader,
        runs=list(runs),
        score=float(score),
        max_score=float(points - pending),
        pending=float(pending),
        seconds=seconds,
        problems=problems,
    )


def _shares(points: float, device: str, tests: Sequence[Outcome]) -> list[Fraction]:
    """The points of each test of a problem."""
    weights = [test.weight if _has_share(test, device) else 0 for test in tests]
    return [Fraction(points) * weight / sum(weights) for weight in weights]


def _has_share(test: Outcome, device: str) -> bool:
    return test.device == device or (device == "cpu" and test.status is not Status.DEFERRED)


def _sum(status: Status, tests: Sequence[Outcome], shares: list[Fraction]) -> Fraction:
    """The sum of the shares of the tests with this status."""
    return sum(
        (share for test, share in zip(tests, shares, strict=True) if test.status is status),
        Fraction(0),
    )
