"""Read what strangers wrote in a process with limits, so that a text can only end its own reading.

Python's parser can fill the memory or end its process, and a reader of ours may take much longer
for a text that was written for it. Whatever happens to the process of a text, a new one reads the
next text. Each process is a new interpreter that imports only what its reading needs.
"""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, Self, TypeVar

import msgspec

import grader
from grader.base.errors import MachineFault
from kit.safe_text import one_line

SECONDS = 10.0  # of CPU time for each text
MEMORY_BYTES = 2**30  # that a process may map for one text, above what it mapped before
KEPT_BYTES = 2**27  # of memory: a process that has grown by more reads no other text
START = (
    "import sys; sys.path += sys.argv[5:]; from {module} import {name} as read; "
    "from grader.base.limited_reading import serve; serve(read, *sys.argv[1:5])"
)
NO_MEMORY = 3  # the exit code of a process whose memory was not enough

Given = TypeVar("Given")
Found = TypeVar("Found")


class Unread(NamedTuple):
    """Why a text was not read."""

    reason: str  # the end of a sentence that begins with its name
    is_limit: bool = False  # whether to read it takes too much time or memory


class _Process:
    """A process that reads one text after the other, and the connection to it."""

    def __init__(self, start: str, *limits: float) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            words = [theirs.fileno(), *limits, *_folders()]
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", start, *map(str, words)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C is for the command, which then ends it
            )
        self.is_ready = False  # whether it has imported what it needs

    def ended(self) -> int:
        """Close the connection; return the exit code, or minus the number of a signal."""
        self.connection.close()
        return self.process.wait()


def _folders() -> list[str]:
    """Where to import from: not the current folder, in which strangers may have put modules."""
    folders = [str(Path(grader.__path__[0]).parent), *sys.path]
    return folders[:1] + [folder for folder in folders if folder not in {"", os.getcwd()}]


class LimitedReader(Generic[Given, Found]):
    """A process that reads one text after the other, as a context manager. It starts at once.

    Args:
        read: Reads one text; a function at the top of a module. What it raises becomes `Unread`.
        seconds: The CPU time for each text.
        memory_bytes: The memory for each text.
        wait_seconds: How long to wait for each text, by an ordinary clock; 0 for any time.
        kind: The type of what `read` returns, which is never None. Only plain data of this type
            comes from a process that has read hostile bytes.
    """

    def __init__(
        self,
        read: Callable[[Given], Found | Unread],
        *,
        seconds: float = SECONDS,
        memory_bytes: int = MEMORY_BYTES,
        wait_seconds: float = 0,
        kind: Any,
    ) -> None:
        self._start = START.format(module=read.__module__, name=read.__name__)
        self._limits = seconds, memory_bytes, wait_seconds
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._process: _Process | None = _Process(self._start, *self._limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process:
            self._process.process.kill()
            self._process.ended()

    def found_in(self, text: Given) -> Found | Unread:
        """What was found in a text, or why it was not read.

        Raises:
            MachineFault: This machine cannot start the process.
        """
        one = self._process = self._process or _Process(self._start, *self._limits)
        try:
            with suppress(OSError):  # a process that has died is seen below
                one.connection.send(text)
            if not one.is_ready:
                one.connection.recv_bytes()
                one.is_ready = True
            heard = memoryview(one.connection.recv_bytes())
        except (EOFError, OSError):
            self._process = None
            return self._why(one)
        if heard[0]:
            self._process = None
            one.ended()
        if heard[1]:
            return Unread(str(heard[2:], "utf-8"))
        found: Found = self._decoder.decode(heard[2:])
        return found

    def _why(self, one: _Process) -> Unread:
        """What the end of a process means."""
        code = one.ended()
        if not one.is_ready:  # not the fault of a text
            raise MachineFault(
                f"a process that reads what students wrote ended with {code} at once"
            )
        seconds, memory_bytes, wait_seconds = self._limits
        if code == -signal.SIGPROF:
            return Unread(f"takes more than {seconds:g} seconds of processor time", is_limit=True)
        if code == NO_MEMORY:
            return Unread(f"takes more than {memory_bytes >> 20} MiB of memory", is_limit=True)
        if code == -signal.SIGALRM:
            return Unread(f"took more than {wait_seconds:g} seconds; this machine is busy")
        name = signal.Signals(-code).name if code < 0 else f"code {code}"
        return Unread(f"ended the process that read it ({name})")


# --- in a process of its own ----------------------------------------------------------------------


def serve(
    read: Callable[[Any], object],
    descriptor: str,
    seconds: str,
    memory_bytes: str,
    wait_seconds: str,
) -> NoReturn:
    """Read texts until the other side closes the connection, or ends."""
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    _lower(resource.RLIMIT_CORE, 0)
    connection, start, is_last = Connection(int(descriptor)), _mapped_bytes(), False
    with suppress(EOFError, OSError):
        connection.send_bytes(b"ready")
        while not is_last:
            text = connection.recv()
            _lower(resource.RLIMIT_AS, _mapped_bytes() + int(memory_bytes))
            _limit_time(float(seconds), float(wait_seconds))
            answer = _answer(read, text)
            _limit_time(0, 0)
            is_last = _mapped_bytes() - start > KEPT_BYTES
            connection.send_bytes(bytes([is_last]) + answer)
    os._exit(0)


def _limit_time(seconds: float, wait_seconds: float) -> None:
    """Have the kernel end this process after so much CPU time, or so much time; 0 for never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, wait_seconds)


def _answer(read: Callable[[Any], object], text: object) -> bytes:
    """What was found, after a 0, or the reason why nothing was, after a 1."""
    try:
        found = read(text)
        if not isinstance(found, Unread):
            return b"\0" + msgspec.msgpack.encode(found)
    except MemoryError:
        os._exit(NO_MEMORY)
    except Exception as e:  # a mistake of ours, which must not end the reading of a class
        found = Unread(one_line(f"cannot be read: {type(e).__name__}: {e}", 300))
    return b"\1" + found.reason.encode(errors="backslashreplace")


def _mapped_bytes() -> int:
    """The size of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _lower(limit: int, to: int) -> None:
    """Lower one of this process's limits; none of them ever gets higher."""
    _, most = resource.getrlimit(limit)
    resource.setrlimit(limit, (to if most == resource.RLIM_INFINITY else min(to, most), most))
