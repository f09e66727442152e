"""The result of a run: frozen records, and the JSON form in which they are written (schema 2)."""

from typing import Annotated

import msgspec

from grader.base.errors import Status

SCHEMA = 2
# The id of the single entry that replaces a problem's tests if they could not be run.
SUITE = "suite"

Device = Annotated[str, msgspec.Meta(pattern=r"^(cpu|cuda)\Z")]
Points = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Weight = Annotated[int, msgspec.Meta(ge=1)]

# A problem's status is the first of these that any of its tests has.
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
    """How one hidden test ended, or one case of it, before points are assigned.

    All cases of a parametrized test count as one test.

    Attributes:
        id: The name of the test function, prefixed with `cuda/` if it needs a CUDA device. Empty as
            long as the outcome belongs to no test function.
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

    id: str = ""
    device: Device = "cpu"
    status: Status
    weight: Weight = 1
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

    id: str
    weight: Weight
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
        status: The worst status of the tests that share its points; see `points._status`.
        tests: All its tests.
    """

    id: str
    module: str
    device: Device
    score: Points
    max_score: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    pending: Points
    status: Status
    tests: list[TestResult]

    @property
    def counted(self) -> list[TestResult]:
        """The tests that are shown.

        Tests that wait for another device and are worth nothing until then are left out.
        """
        return [test for test in self.tests if test.counts]

    @property
    def passed(self) -> int:
        """How many of these tests passed."""
        return sum(test.status is Status.PASSED for test in self.counted)


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
        readings: How the GPU of a CUDA run ran: clock, power, temperature and throttling, as far as
            its driver reports them, and whether it worked afterwards.
    """

    version: str
    suite_sha256: str
    device: str
    isolation: str
    seed: int
    environment: dict[str, str] = {}
    readings: dict[str, str] = {}


class SubmissionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report is made from.

    Attributes:
        schema: The version of the JSON format.
        submission: What was graded.
        grader: The grader, machine and settings of the run.
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
    def grader_errors(self) -> list[tuple[str, TestResult]]:
        """The tests that a fault of the grader prevented, each with its problem's id."""
        return [
            (problem.id, test)
            for problem in self.problems
            for test in problem.tests
            if test.status is Status.GRADER_ERROR
        ]

    @property
    def has_grader_error(self) -> bool:
        """Whether a fault of the grader prevented a test.

        If so, the score must not be recorded, even if that test is worth nothing.
        """
        return bool(self.grader_errors)
