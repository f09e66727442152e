"""Grade on this machine: one process per processor, each with its own warm sandbox."""

from collections.abc import Generator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from queue import Empty, SimpleQueue

from grader.base.errors import SandboxUnavailable
from grader.classroom.executor import (
    TICK_SECONDS,
    BatchEvent,
    Ended,
    Started,
    Take,
    Waits,
    fault_of,
    graded,
)
from grader.classroom.setups import Setup
from grader.course.courses import Course
from grader.sandbox import gpu_turns
from grader.sandbox.gpus import Gpu
from grader.sandbox.pool import Pool, own_course, own_sandbox
from grader.submission.submissions import Submission


class LocalExecutor:
    """Grades in processes on this machine.

    Each pool has one process, so that a process that dies affects no other submission. A sandbox
    that cannot be started ends the batch only before the first result: afterwards, this machine is
    known to be able to grade, and only one submission is affected.

    Args:
        setup: What is graded, and how.
        jobs: The number of processes; with a GPU, one, because submissions get it in turns.
        gpu: The GPU that submissions get.
        fresh: Whether each test runs in a new process.
    """

    def __init__(
        self, course: Course, setup: Setup, *, jobs: int, gpu: Gpu | None = None, fresh: bool
    ) -> None:
        self._course, self._setup, self._jobs = course, setup, 1 if gpu else jobs
        self._gpu, self._fresh = gpu, fresh

    def run(self, take: Take) -> Generator[BatchEvent, None, None]:
        """Grade submissions until none is left; see `Executor`.

        Raises:
            SandboxUnavailable: No submission can be graded on this machine.
        """
        running: dict[Future[bytes], tuple[Submission, Pool]] = {}
        idle: list[Pool] = []
        arrived: SimpleQueue[Future[bytes]] = SimpleQueue()
        has_graded = False
        with ExitStack() as pools:
            while True:
                while len(running) < self._jobs and (submission := take()):
                    pool = idle.pop() if idle else pools.enter_context(self._pool())
                    future = pool.submit(arrived, _graded, submission, self._setup, self._fresh)
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


def _graded(submission: Submission, setup: Setup, fresh: bool) -> bytes:
    """Grade one submission in a process of the pool."""
    course, sandbox = own_course(), own_sandbox()
    return graded(submission, course, sandbox, setup, fresh=fresh)
