"""Let the two sides of a test take turns on one core.

While a student's function runs, the grader waits, and the other way round. If each side has a core
of its own, one of the cores is always idle, and has to be woken for the next turn. By then, other
processes or other virtual machines have used its caches. On one core, a grade takes about a tenth
less CPU time. A submission that starts many processes then also slows down only itself, and not the
submissions that are graded on the other cores.
"""

import ctypes
import os
import threading
from contextlib import suppress
from pathlib import Path


class SharedCore:
    """The core that a thread of the grader shares with the children of a zygote."""

    def __init__(self) -> None:
        self._core: int | None = None  # the last one, where the zygote stays
        self._thread: tuple[int, set[int]] | None = None  # and the cores that it may use otherwise

    def take(self, zygote: int) -> None:
        """Keep the calling thread, the zygote and its children on the core that this thread is on.

        If the system does not allow this, everything stays as it is.

        Args:
            zygote: Its process id.
        """
        self.leave()
        with suppress(OSError, AttributeError):
            core, allowed = ctypes.CDLL(None).sched_getcpu(), os.sched_getaffinity(0)
            if core != self._core:
                os.sched_setaffinity(zygote, {core})  # those that it forks from now on inherit it
                children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text()
                for child in map(int, children.split()):
                    os.sched_setaffinity(child, {core})
                self._core = core
            os.sched_setaffinity(0, {core})
            self._thread = (threading.get_native_id(), allowed)

    def leave(self) -> None:
        """Let the thread use all its cores again. The zygote stays until the next `take`."""
        if self._thread:
            thread, allowed = self._thread
            self._thread = None
            with suppress(OSError):  # the thread may have ended
                os.sched_setaffinity(thread, allowed)
