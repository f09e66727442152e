"""How long a test may compute in the grader's own process, without what it waits for."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from grader.base.errors import TimedOut

# The CPU time that one test may take in this process, at first and at least. The slowest hidden
# test takes less than half of the least.
JUDGING_SECONDS, LEAST_JUDGING_SECONDS = 20.0, 2.0
AT_ONCE = 1e-6  # seconds

_is_limited = _is_stopped = False  # in the main thread


class TookTooLong(Exception):
    """A test computed too long in this process."""


@dataclass
class JudgingTime:
    """How long the tests of a submission may compute in this process."""

    # The CPU time for each further test. It is halved whenever a test exceeds it, so that a
    # submission cannot make every test use all of it.
    seconds: float = field(default_factory=lambda: JUDGING_SECONDS)

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Raise `TookTooLong` in the block once this process has used the time in it.

        Waiting for the student's process uses none; see `stopped`. One long call of C code delays
        the exception until the call returns. Python delivers signals to the main thread, so there
        is no limit in another thread.
        """
        global _is_limited

        def too_long(*_: object) -> None:
            if _is_stopped:
                return  # `stopped` has it sent again
            used, self.seconds = self.seconds, max(LEAST_JUDGING_SECONDS, self.seconds / 2)
            raise TookTooLong(f"the test computed for more than {used:g} s")

        if not _is_the_main_thread():
            yield
            return
        _is_limited = True
        try:
            with _clock(self.seconds, too_long):
                yield
        finally:
            _is_limited = False


@contextmanager
def stopped() -> Iterator[None]:
    """Stop the clock of `limit` in the block, and raise nothing there.

    What the student's process makes the grader read is charged as that process's own time. And an
    exception between a question to the sandbox and its answer would look like a failed sandbox.
    """
    global _is_stopped
    if not _is_limited or not _is_the_main_thread():
        yield
        return
    _is_stopped = True  # first, because a signal may be on its way
    left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
    try:
        yield
    finally:
        _is_stopped = False
        signal.setitimer(signal.ITIMER_PROF, left or AT_ONCE)


@contextmanager
def ending_after(cpu_seconds: int) -> Iterator[None]:
    """Raise TimedOut where the block is when it has used so much CPU time, and each second after.

    It is for our own solutions, which run in this process, so the clock of `limit` is stopped.
    Without a limit (0), or in another than the main thread, nothing is raised.
    """

    def end(*_: object) -> None:
        raise TimedOut(f"it took more than {cpu_seconds} s of CPU time")

    if not cpu_seconds or not _is_the_main_thread():
        yield
        return
    with stopped(), _clock(cpu_seconds, end, again=1):
        yield


@contextmanager
def _clock(seconds: float, act: Callable[..., None], *, again: float = 0.0) -> Iterator[None]:
    """Call `act` in the block after so much CPU time and then, if wanted, again and again.

    A process has only one such clock.
    """
    before = signal.signal(signal.SIGPROF, act)
    signal.setitimer(signal.ITIMER_PROF, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _is_the_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
