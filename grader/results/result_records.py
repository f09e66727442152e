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
    Status.GRADER_ERROR, Status.POLICY, Status.CRASHED, Status.TIMEOUT, Status.MEMORY,
    Status.FAILED, Status.NOT_ATTEMPTED, Status.DEFERRED, Status.PASSED,
)  # fmt: skip


def worst(statuses: list[Status]) -> Status:
    return min(statuses, key=WORST_FIRST.index)


class Fact(msgspec.Struct, frozen=True):
    """One fact about a failure: a label of a word or two, and a line of text."""

    label: str
    text: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one hidden test ended with all its cases, before points are assigned."""

    # The test function, prefixed with `cuda/` if it needs a CUDA device; empty before it is known.
    id: str = ""
    device: Device = "cpu"  # where it runs, "cpu" or "cuda"
    status: Status  # how it ended
    weight: Weight = 1  # its weight when the problem's points are split over its tests
    # The subject of the message: a student's function or, for a fault of the grader, the test.
    about: str = ""
    what: str = ""  # what happened, in one line; empty when it passed
    facts: list[Fact] = []  # further details for the student, one line each
    # What the test requires; empty when it passed, or when something else went wrong.
    rule: str = ""
    # The one known mistake that explains the failure; empty if there is none, or more than one.
    mistake: str = ""
    hint: str | None = None  # a helpful question, if the mistake or the test has one
    seconds: float = 0.0  # wall time of the test, including its oracle

    @property
    def said(self) -> str:
        """What happened to which function, in one line."""
        return f"{self.about}: {self.what}" if self.about else self.what

    def head(self, problem_id: str) -> str:
        """The line of `said`, with the problem's id in front."""
        return f"{problem_id} · {self.said}" if self.about else f"{problem_id}: {self.said}"


class TestResult(Outcome, frozen=True, kw_only=True):
    """One hidden test with its points; see `problem_result`."""

    __test__ = False  # keeps pytest from collecting this class as a test

    id: str
    weight: Weight
    score: Points  # points earned
    max_score: Points  # points it is worth

    @property
    def counts(self) -> bool:
        """Whether a report counts the test; a deferred test that is worth nothing is left out."""
        return self.status is not Status.DEFERRED or self.max_score > 0


class ProblemResult(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its tests and their total."""

    id: str
    module: str  # the module of the assignment that contains it
    device: Device  # where its points are earned, "cpu" or "cuda"
    score: Points  # points earned
    max_score: Annotated[float, msgspec.Meta(gt=0, le=1e6)]  # the most points that it can give
    pending: Points  # points of its deferred tests; they are neither earned nor lost
    status: Status  # the worst status of the tests that share its points; see `points._status`
    tests: list[TestResult]  # all its tests

    @property
    def counted(self) -> list[TestResult]:
        """The tests that are shown: without those that wait and are worth nothing until then."""
        return [test for test in self.tests if test.counts]

    @property
    def passed(self) -> int:
        return sum(test.status is Status.PASSED for test in self.counted)


class Ignored(msgspec.Struct, frozen=True):
    path: str
    reason: str


class SubmissionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was graded. `sha256` covers the graded sources only, so equal code has an equal hash."""

    name: str
    sha256: str
    files: list[str]
    ignored: list[Ignored]


class GraderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a result was graded with: enough to reproduce it."""

    version: str  # the grader's version
    suite_sha256: str  # a hash of the tests
    device: str  # "cpu" or "cuda"; "cpu+cuda" for a merged result
    isolation: str  # what isolated the submission from this machine
    seed: int  # the seed of the tests' inputs
    # The versions of python and torch and, for a CUDA run, the gpu, its driver and cuda. Empty for
    # a merged result, whose `runs` contain it.
    environment: dict[str, str] = {}
    # Whether the GPU of a CUDA run worked afterwards.
    readings: dict[str, str] = {}


class SubmissionResult(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA  # the version of the JSON format
    submission: SubmissionInfo  # what was graded
    grader: GraderInfo  # the grader, machine and settings of the run
    runs: list[GraderInfo] = []  # the runs that were merged; empty for a single run
    score: Points  # points earned
    # Points that this run could give, without those that are pending.
    max_score: Points
    pending: Points = 0.0  # points of tests that need a device other than the run's
    seconds: float  # how long the run took
    problems: list[ProblemResult]  # the problems in the order of the course

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
        """Whether a fault of the grader prevented a test, so that no score must be recorded."""
        return bool(self.grader_errors)
