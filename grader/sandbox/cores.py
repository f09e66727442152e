"""Let the two sides of a test take turns on one core.

While a student's function runs, the grader waits, and the other way round. If each side has a core
of its own, one of the cores is always idle, and has to be woken for the next turn. By then, other
processes or other virtual machines have used its caches. On one core, a grade takes about a tenth
less CPU time. A submission that starts many processes then also slows down only itself, and not the
submissions that are graded on the other cores.

The zygote keeps to no core: it ends a child and forks the next one while the grader judges what the
child has answered. No two graders of a machine keep to the same core, because the scheduler could
not move them apart.
"""

import ctypes
import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from grader.wire import shortcuts

# Of a socket that belongs to the grader that keeps to a core; \0 means that it is not a file.
NAME = "\0grader-core-{}"


class SharedCore:
    """The core that a thread of the grader shares with the children of a zygote."""

    def __init__(self) -> None:
        self._thread = 0  # that keeps to the core
        self._cores: set[int] = set()  # the core, or all cores if none was free
        self._allowed: set[int] = set()  # the cores that the thread may use otherwise
        self._reserved: socket.socket | None = None

    def take(self, zygote: int) -> None:
        """Keep the calling thread and the zygote's present children on one core.

        If every core is taken, or the system does not allow this, they may use all cores.

        Args:
            zygote: Its process id.
        """
        self.leave()
        if shortcuts.is_off("cores"):
            return
        self._allowed = os.sched_getaffinity(0)
        self._cores = self._reserve_one() or self._allowed
        try:
            _keep_on(self._cores, zygote)
            os.sched_setaffinity(0, self._cores)
            self._thread = threading.get_native_id()
        except OSError:
            self.leave()
            with suppress(OSError):
                _keep_on(self._allowed, zygote)

    def part(self) -> None:
        """Keep the thread on other cores until `meet`, because both sides will work at once."""
        others = self._allowed - self._cores
        if self._thread and others:
            with suppress(OSError):
                os.sched_setaffinity(self._thread, others)

    def meet(self) -> None:
        """Keep the thread on the core again, if it has not left in the meantime."""
        if self._thread:
            with suppress(OSError):
                os.sched_setaffinity(self._thread, self._cores)
        if not self._thread:  # another thread has just closed the sandbox
            with suppress(OSError):
                os.sched_setaffinity(0, self._allowed)

    def leave(self) -> None:
        """Let the thread use all its cores again. The zygote's children stay on the core."""
        thread, self._thread = self._thread, 0
        reserved, self._reserved = self._reserved, None
        if thread:
            with suppress(OSError):  # the thread may have ended
                os.sched_setaffinity(thread, self._allowed)
        if reserved:
            reserved.close()

    def _reserve_one(self) -> set[int]:
        """Reserve a core, if possible the one that this thread is on; none if all are taken."""
        now = ctypes.CDLL(None).sched_getcpu()
        for core in sorted(self._allowed, key=lambda core: core != now):
            name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                # Only one process can have this name, and it loses it at the latest when it ends.
                name.bind(NAME.format(core))
            except OSError:
                name.close()
            else:
                self._reserved = name
                return {core}
        return set()


def _keep_on(cores: Iterable[int], parent: int) -> None:
    """Keep the children of a process on these cores. Those that they fork later inherit this."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    for child in map(int, children.split()):
        os.sched_setaffinity(child, cores)
