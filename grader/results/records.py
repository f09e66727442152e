"""What a run of the grader found out: frozen records, and the JSON they are written as (schema 2).

A score is exact while it is added up: points are fractions of a problem and become floats once, at the end, so that full
marks are exactly the points of the problem, and of all problems.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import msgspec

from grader.errors import Status

SCHEMA = 2
SUITE = "suite"  # the id of what stands for all tests of a problem where they could not be run

Device = Annotated[str, msgspec.Meta(pattern=r"^(cpu|cuda)\Z")]
Points = Annotated[float, msgspec.Meta(ge=0)]
Weight = Annotated[int, msgspec.Meta(ge=1)]

# A problem has the first of these that one of its tests has.
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
    """The status that says most about what went wrong."""
    return min(statuses, key=WORST_FIRST.index)


class Fact(msgspec.Struct, frozen=True):
    """One thing that is known of a failure: what it is, in a word or two, and what is to be said of it, in a line."""

    label: str
    text: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one hidden test ended, before it is worth anything; the cases of a parametrized one count as one test.

    Attributes:
        id: The name of the test function; `cuda/` stands before that of one which needs a CUDA device.
        device: Where it runs, "cpu" or "cuda".
        status: How it ended.
        weight: Its part of its problem's points, beside the weights of the others.
        about: What it is about: a function of the student's, or of a fault of ours the test. Empty where that is not known.
        what: What happened, in a line; empty when it passed.
        facts: What else the student is told, each in a line.
        rule: What the test asks for; empty when it passed, or where something else went wrong.
        mistake: The one known mistake that explains the failure; empty where none does, or several do.
        hint: A question that helps, where the mistake or the test has one.
        seconds: Wall time of the test, its oracle included.
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
        """What happened to what, in a line."""
        return f"{self.about}: {self.what}" if self.about else self.what

    def head(self, problem_id: str) -> str:
        """The same, headed by the problem."""
        return f"{problem_id} · {self.said}" if self.about else f"{problem_id}: {self.said}"


class TestResult(Outcome, frozen=True, kw_only=True):
    """One hidden test, with what it is worth; see `problem_result`.

    Attributes:
        score: Points earned.
        max_score: Points it is worth.
    """

    __test__ = False  # not a test itself, whatever pytest thinks of its name

    score: Points
    max_score: Points

    @property
    def counts(self) -> bool:
        """Whether it says something of its problem: not where it was deferred and is worth nothing."""
        return self.status is not Status.DEFERRED or self.max_score > 0


class ProblemResult(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its tests and what they add up to.

    Attributes:
        id: Its id.
        module: The module of the assignment that it is in.
        device: Where its points are earned, "cpu" or "cuda".
        score: Points earned.
        max_score: What it is worth.
        pending: Points of its deferred tests: not earned and not lost.
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
    """Something in the submission that was not graded, and why."""

    path: str
    reason: str


class SubmissionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was graded: `sha256` is over the graded sources alone, so that the same code has the same hash."""

    name: str
    sha256: str
    files: list[str]
    ignored: list[Ignored]


class GraderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What graded it: enough to run it again with the same outcome.

    Attributes:
        version: The grader's.
        suite_sha256: A hash over the tests.
        device: "cpu" or "cuda"; "cpu+cuda" of a merged result.
        isolation: What kept the submission from this machine.
        seed: What the tests' inputs follow from.
        environment: What it ran in: versions of python and torch, and of a CUDA run the gpu, its driver and cuda. Empty of a
            merged result, whose runs tell it.
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
        schema: The number of the JSON's form.
        submission: What was graded.
        grader: What graded it.
        runs: The runs that it was merged from; empty of a single run.
        score: Points earned.
        max_score: Points that could be: what is pending is left out, which is not earned and not lost.
        pending: Points of tests that need another device than the run had.
        seconds: How long it took.
        problems: In the order of the course.
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
        """Whether something of ours failed, so that the score is not to be recorded; also in a test that is worth nothing."""
        return any(
            test.status is Status.GRADER_ERROR
            for problem in self.problems
            for test in problem.tests
        )


def problem_result(
    problem_id: str, module: str, points: float, outcomes: Sequence[Outcome], device: str = "cpu"
) -> ProblemResult:
    """Split a problem's points over its tests by weight and add up what was earned.

    The points are split over the tests of the problem's own device. A test of another device has a share only of a CPU
    problem, and once it ran: it is worth nothing while it is deferred. So the tests that a CUDA problem has for a CPU earn
    nothing, and a CPU run alone can give all points of a CPU problem.

    Args:
        problem_id: Its id.
        module: The module of the assignment that it is in.
        points: What it is worth.
        outcomes: How its tests ended; at least one is of the problem's own device.
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
    """The worst of the tests that have a share of the points. Where all of those were deferred, others have a word as well."""
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
    """Add up the problems: exactly, and not their rounded scores."""
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
    """What each test of a problem is worth."""
    weights = [test.weight if _has_share(test, device) else 0 for test in tests]
    return [Fraction(points) * weight / sum(weights) for weight in weights]


def _has_share(test: Outcome, device: str) -> bool:
    return test.device == device or (device == "cpu" and test.status is not Status.DEFERRED)


def _sum(status: Status, tests: Sequence[Outcome], shares: list[Fraction]) -> Fraction:
    """The shares of the tests that ended so."""
    return sum(
        (share for test, share in zip(tests, shares, strict=True) if test.status is status),
        Fraction(0),
    )
