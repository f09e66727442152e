"""Read what strangers wrote in processes with limits, so that a text can only end its own reading.

Python's parser can fill the memory or end its process, and a reader of ours may take much longer
for a text that was written for it. Whatever happens to the process of a text, the others are read.
"""

import multiprocessing
import resource
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any, Generic, NamedTuple, TypeVar

from grader.base import limits
from grader.base.errors import MachineFault

SECONDS = 10.0  # of CPU time for each text
MEMORY_BYTES = 2**30  # that a process may map in addition to what it has when it starts

Given = TypeVar("Given")
Found = TypeVar("Found")


class Unread(NamedTuple):
    """Why a text was not read, as the end of a sentence that begins with its name."""

    reason: str


class _Process(NamedTuple):
    """A process that reads one text after the other, and the connection to it."""

    process: ForkServerProcess
    connection: Connection


class Readers(Generic[Given, Found]):
    """Processes that read texts, as a context manager.

    Args:
        read: Reads one text; a function at the top of a module. What it raises becomes `Unread`.
        jobs: The number of processes.
        seconds: The CPU time for each text.
    """

    def __init__(
        self, read: Callable[[Given], Found], jobs: int, *, seconds: float = SECONDS
    ) -> None:
        self._read = read
        self._jobs = jobs
        self._seconds = seconds
        self._idle: list[_Process] = []
        self._busy: dict[Connection, tuple[_Process, int]] = {}

    def __enter__(self) -> "Readers[Given, Found]":
        return self

    def __exit__(self, *error: object) -> None:
        for reader in [*self._idle, *(reader for reader, _ in self._busy.values())]:
            reader.process.kill()
            reader.process.join()
            reader.connection.close()

    def each(self, texts: Sequence[Given]) -> list[Found | Unread]:
        """What was found in each text, or why it was not read.

        Raises:
            MachineFault: This machine cannot start the processes.
        """
        found: dict[int, Found | Unread] = {}
        waiting = deque(enumerate(texts))
        while waiting or self._busy:
            while waiting and len(self._busy) < self._jobs:
                reader = self._idle.pop() if self._idle else self._started()
                number, text = waiting.popleft()
                self._busy[reader.connection] = reader, number
                with suppress(OSError):  # a process that has died is seen below
                    reader.connection.send(text)
            ended = wait(list(self._busy))
            for connection in [one for one in self._busy if one in ended]:
                reader, number = self._busy.pop(connection)
                found[number] = self._result(reader)
        return [found[number] for number in range(len(texts))]

    def _result(self, reader: _Process) -> Found | Unread:
        try:
            found: Found | Unread = reader.connection.recv()
        except (EOFError, OSError):
            reader.connection.close()
            reader.process.join()
            return Unread(self._why(reader.process.exitcode))
        self._idle.append(reader)
        return found

    def _started(self) -> _Process:
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, self._read, self._seconds), daemon=True
        )
        process.start()
        theirs.close()
        try:
            ours.recv()  # a process that cannot even start is not the fault of a text
        except (EOFError, OSError):
            process.join()
            raise MachineFault(
                f"a process that reads what students wrote ended with {process.exitcode} at once"
            ) from None
        return _Process(process, ours)

    def _why(self, code: int | None) -> str:
        if code == -signal.SIGPROF:
            return f"took more than {self._seconds:g} s"
        name = signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"
        return f"ended the process that read it ({name})"


# --- in a process of its own ----------------------------------------------------------------------


def _serve(connection: Connection, read: Callable[[Any], Any], seconds: float) -> None:
    """Read texts until the other side closes the connection, or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command handles Ctrl-C, and ends this
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    limits.lower(resource.RLIMIT_AS, limits.mapped_bytes() + MEMORY_BYTES)
    with suppress(EOFError, OSError):
        connection.send(None)
        while True:
            connection.send(_limited(read, connection.recv(), seconds))


def _limited(read: Callable[[Any], Any], text: object, seconds: float) -> object:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return read(text)
    except MemoryError:
        return Unread(f"takes more than {MEMORY_BYTES >> 20} MiB")
    except Exception as e:  # a mistake of ours, which must not end the reading of a class
        return Unread(f"cannot be read: {type(e).__name__}: {e}"[:200])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
