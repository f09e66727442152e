"""Where the submissions of a class are graded: on this machine, or on a cluster.

An executor yields events. `batch` alone writes the gradebook and decides whether to try again.
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from grader.base.errors import GraderFault, SandboxUnavailable
from grader.classroom.setups import Setup
from grader.course.courses import Course
from grader.sandbox import gpu_turns
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import Isolation
from grader.sandbox.process_pool import Pool, own_course, own_sandbox
from grader.sandbox.sandbox import Sandbox
from grader.submission.submissions import Submission

TICK_SECONDS = 0.5  # how long an executor waits for an event before it yields None


@dataclass(frozen=True)
class Started:
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
    text: str


@dataclass(frozen=True)
class Waits:
    """No submission can go on at present; the text says why, or is empty if one can."""

    text: str


BatchEvent = Started | Ended | Noted | Waits | None
Take = Callable[[], Submission | None]


class Executor(Protocol):
    def run(self, take: Take) -> Generator[BatchEvent, None, None]:
        """Grade what `take` returns until it is None; yield events, and None after a while without.

        `take` may return a submission again after its `Ended`, for another try.

        Raises:
            GraderFault: No submission can be graded.
        """


@dataclass(frozen=True)
class Cluster:
    """A kind of cluster on which submissions can be graded."""

    help: str  # what `--executor` says of it
    # Raises UsageError if the cluster at an address, or this machine's, cannot be used at a level.
    require: Callable[[str | None, Isolation], None]
    # Takes the course, its folder (None for the grader's own), a setup, `address` and `jobs`.
    executor: Callable[..., Executor]


def graded(submission: Submission, course: Course, sandbox: Sandbox, setup: Setup) -> bytes:
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
    )
    return msgspec.json.encode(result)


def fault_of(error: Exception) -> str:
    """The message to record for an error that left a submission without a result."""
    return str(error) if isinstance(error, GraderFault) else f"{type(error).__name__}: {error}"


class LocalExecutor:
    """Grades in processes on this machine; with a GPU in one, because submissions take turns on it.

    Each pool has one process, so that a process that dies affects no other submission. A sandbox
    that cannot be started ends the batch only before the first result: afterwards, this machine is
    known to be able to grade, and only one submission is affected.
    """

    def __init__(self, course: Course, setup: Setup, *, jobs: int, gpu: Gpu | None = None) -> None:
        self._course, self._setup, self._jobs = course, setup, 1 if gpu else jobs
        self._gpu = gpu

    def run(self, take: Take) -> Generator[BatchEvent, None, None]:
        """Grade submissions until none is left; see `Executor`."""
        running: dict[Future[bytes], tuple[Submission, Pool]] = {}
        idle: list[Pool] = []
        arrived: SimpleQueue[Future[bytes]] = SimpleQueue()
        has_graded = False
        with ExitStack() as pools:
            while True:
                while len(running) < self._jobs and (submission := take()):
                    future, pool = self._submitted(submission, arrived, idle, pools)
                    running[future] = submission, pool
                    yield Started(submission)
                if not running:
                    return
                try:
                    future = arrived.get(timeout=TICK_SECONDS)
                except Empty:
                    yield Waits(gpu_turns.waits(self._gpu)) if self._gpu else None
                    continue
                submission, pool = running.pop(future)
                ended = _ended(submission, future, has_graded=has_graded)
                has_graded |= bool(ended.result)
                if ended.lost:
                    pool.close()
                else:
                    idle.append(pool)
                yield ended

    def _submitted(
        self,
        submission: Submission,
        arrived: "SimpleQueue[Future[bytes]]",
        idle: list[Pool],
        pools: ExitStack,
    ) -> tuple["Future[bytes]", Pool]:
        """Give a submission to a pool; one whose process has died while it waited takes none."""
        while True:
            pool = idle.pop() if idle else pools.enter_context(self._pool())
            with suppress(BrokenProcessPool):
                return pool.submit(arrived, _graded, submission, self._setup), pool
            pool.close()

    def _pool(self) -> Pool:
        return Pool(self._course, 1, gpu=self._gpu, isolation=self._setup.isolation)


def _ended(submission: Submission, future: "Future[bytes]", *, has_graded: bool) -> Ended:
    try:
        return Ended(submission, future.result())
    except BrokenProcessPool:
        return Ended(submission, fault="the process that graded it was killed", lost=True)
    except SandboxUnavailable as e:
        if not has_graded:
            raise
        return Ended(submission, fault=str(e), lost=True)  # the next one gets a new sandbox
    except Exception as e:  # one submission never stops the others
        return Ended(submission, fault=fault_of(e))


def _graded(submission: Submission, setup: Setup) -> bytes:
    return graded(submission, own_course(), own_sandbox(), setup)
