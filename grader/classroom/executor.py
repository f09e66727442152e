"""Where the submissions of a class are graded: on this machine, or on a cluster.

An executor has one method, which takes submissions one at a time and yields events about them. An
executor never writes the gradebook and never decides whether to retry a submission: `batch` does
both, for all executors.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from grader.base.errors import GraderFault
from grader.classroom.setups import Setup
from grader.course.courses import Course
from grader.sandbox.box import Sandbox
from grader.sandbox.levels import Isolation
from grader.submission.submissions import Submission

TICK_SECONDS = 0.5  # how long an executor waits for an event before it yields None


@dataclass(frozen=True)
class Started:
    """A submission is being graded now."""

    submission: Submission
    place: str = ""  # the machine that grades it; empty for this one


@dataclass(frozen=True)
class Ended:
    """A submission that was started is not being graded any more."""

    submission: Submission
    result: bytes = b""  # its result as JSON; empty if there is none
    fault: str = ""  # why there is no result
    lost: bool = False  # whether the grading process has died, perhaps together with its machine


@dataclass(frozen=True)
class Noted:
    """A message for the person who started the batch."""

    text: str


@dataclass(frozen=True)
class Waits:
    """No submission can go on at present; the text says why, or is empty if one can."""

    text: str


BatchEvent = Started | Ended | Noted | Waits | None
Take = Callable[[], Submission | None]


class Executor(Protocol):
    """Where submissions are graded."""

    def run(self, take: Take) -> Generator[BatchEvent, None, None]:
        """Grade submissions until none is left.

        Args:
            take: Returns the next submission to grade, or None if none is left. It may return a
                submission again after its `Ended`, for another try.

        Yields:
            Events, and None if there was no event for a while.

        Raises:
            GraderFault: No submission can be graded.
        """


@dataclass(frozen=True)
class Cluster:
    """A kind of cluster on which submissions can be graded."""

    help: str  # what `--executor` says of it
    # Checks that the cluster at an address can be used with an isolation level; without an address,
    # the cluster that this machine belongs to. It raises UsageError otherwise.
    require: Callable[[str | None, Isolation], None]
    # Makes the executor of a course, its folder (None for the grader's own) and a setup, with the
    # keywords `address`, `jobs` and `fresh`.
    executor: Callable[..., Executor]


def graded(
    submission: Submission, course: Course, sandbox: Sandbox, setup: Setup, *, fresh: bool
) -> bytes:
    """Grade one submission in this process; return its result as JSON."""
    # This imports torch and pytest while the sandbox does the same.
    from grader.grading.grade import grade

    result = grade(
        submission,
        course,
        sandbox,
        problems=[course.problem(name) for name in setup.problems],
        device=setup.device,
        seed=setup.seed,
        fresh=fresh,
    )
    return msgspec.json.encode(result)


def fault_of(error: Exception) -> str:
    """The message to record for an error that left a submission without a result."""
    return str(error) if isinstance(error, GraderFault) else f"{type(error).__name__}: {error}"
