"""What a run of the grader found out: frozen records, and the JSON they are written as (schema 1).

A score is exact while it is added up: points are fractions of a problem and become floats once, at the end, so that full
marks are exactly the points of the problem.
"""

from fractions import Fraction

import msgspec

from grader.errors import Status

SCHEMA = 1


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


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """One hidden test; the cases of a parametrized one count as one test.

    Attributes:
        id: The name of the test function.
        status: How it ended.
        score: Points earned.
        max_score: Points it is worth.
        message: What the student is told; empty when it passed.
        hint: A question that helps, where the test has one.
        seconds: Wall time of the test, its oracle included.
    """

    __test__ = False  # not a test itself, whatever pytest thinks of its name

    id: str
    status: Status
    score: float
    max_score: float
    message: str
    hint: str | None
    seconds: float


class ProblemResult(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its tests and what they add up to."""

    id: str
    module: str
    score: float
    max_score: float
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
    """What graded it: enough to run it again with the same outcome."""

    version: str
    suite_sha256: str
    device: str
    isolation: str
    seed: int


class SubmissionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report is made from."""

    schema: int = SCHEMA
    submission: SubmissionInfo
    grader: GraderInfo
    score: float
    max_score: float
    seconds: float
    problems: list[ProblemResult]

    @property
    def has_grader_error(self) -> bool:
        """Whether something of ours failed, so that the score is not to be recorded."""
        return any(problem.status is Status.GRADER_ERROR for problem in self.problems)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one test ended, before it is worth anything."""

    id: str
    weight: int
    status: Status
    message: str = ""
    hint: str | None = None
    seconds: float = 0.0


def problem_result(problem_id: str, module: str, points: int, outcomes: list[Outcome]) -> ProblemResult:
    """Split a problem's points over its tests by weight and add up what was earned.

    Args:
        problem_id: Its id.
        module: The module of the assignment that it is in.
        points: What it is worth.
        outcomes: How its tests ended; at least one.
    """
    weights = sum(outcome.weight for outcome in outcomes)
    shares = [Fraction(points * outcome.weight, weights) for outcome in outcomes]
    earned = [share if o.status is Status.PASSED else Fraction(0) for share, o in zip(shares, outcomes, strict=True)]
    tests = [
        TestResult(
            id=o.id,
            status=o.status,
            score=float(score),
            max_score=float(share),
            message=o.message,
            hint=o.hint,
            seconds=o.seconds,
        )
        for o, score, share in zip(outcomes, earned, shares, strict=True)
    ]
    return ProblemResult(
        id=problem_id,
        module=module,
        score=float(sum(earned, Fraction(0))),
        max_score=float(points),
        status=worst([o.status for o in outcomes]),
        tests=tests,
    )
