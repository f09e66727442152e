"""One child of a zygote, from its fork to its end: its socket, and a pipe for its tracebacks."""

import os
import select
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from grader.base.errors import GraderFault
from grader.course.courses import Limits
from grader.sandbox.sandbox import Sandbox
from grader.wire import protocol
from grader.wire.zygote_messages import Ending
from kit.safe_text import printable

PIECE = 65536
# How much a socket holds, if the system allows so much, before its writer has to wait.
SOCKET_BYTES = 2**20
MAX_TRACEBACKS = 64 * 1024  # how many of the last bytes of Python's own tracebacks are kept
# The longest wait until a forked process runs student code; only a machine in trouble takes this
# long.
BEGIN_SECONDS = 120.0
# How long to wait for a traceback that the child was asked to print.
TRACEBACK_SECONDS = 1.0


class Tracebacks:
    """The reading end of the pipe that a child prints tracebacks to; only the end is kept.

    Attributes:
        is_open: Whether the reading end is open.
        writing_end: The descriptor for the writing process; the caller closes it after the fork.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self.is_open = True
        self._fd, self.writing_end = os.pipe()
        os.set_blocking(self._fd, False)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._fd

    @property
    def text(self) -> str:
        """The end of what was printed so far, with invalid UTF-8 replaced."""
        return self._kept[-MAX_TRACEBACKS:].decode(errors="replace")

    def read(self) -> bool:
        """Keep what has arrived; return False once the writing end is closed everywhere."""
        with suppress(BlockingIOError):
            piece = os.read(self._fd, PIECE)
            self._kept += piece
            # Dropping moves all that stays, which small pieces must not cause each time.
            if len(self._kept) > 2 * MAX_TRACEBACKS:
                del self._kept[:-MAX_TRACEBACKS]
            return bool(piece)
        return True

    def forget(self) -> None:
        """Drop what was printed so far, including what is in the kernel's buffer of the pipe."""
        with suppress(BlockingIOError):
            os.read(self._fd, PIECE)
        self._kept.clear()

    def read_the_rest(self) -> None:
        """Keep what is still in the pipe, after all its writers have exited."""
        with selectors.DefaultSelector() as selector:
            if self.is_open:
                selector.register(self, selectors.EVENT_READ)
                while selector.select(0) and self.read():
                    pass

    def close(self) -> None:
        """Close the reading end; the text stays available."""
        if self.is_open:
            os.close(self._fd)
            self.is_open = False


class Late(Exception):
    """No reply before the deadline."""


class Gone(Exception):
    """The child has closed its socket, so it has ended."""


class Watch(Protocol):
    """Ends the wait for a reply by an exception, if the child does what it must not do."""

    pause: float  # the seconds between two checks

    def check(self) -> None:
        """Raise an exception if the wait has to end."""


class Child:
    """A process that runs student code. Once it has ended, its tracebacks can still be read.

    Args:
        sandbox: The sandbox whose zygote forks it.
        limits: What it may use.
        with_compiler: See `Sandbox.spawn`.

    Raises:
        GraderFault: The zygote has exited.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, *, with_compiler: bool) -> None:
        self._sandbox = sandbox
        self.tracebacks = Tracebacks()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        for one in (self._socket, theirs):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        self.is_open = True  # whether it can still be reached
        self.bytes_left = protocol.MAX_ANSWER_BYTES  # how much memory further replies may take
        # `selectors` would take longer than most calls.
        self._poll = select.poll()
        for readable in (self.tracebacks, self._socket):
            self._poll.register(readable, select.POLLIN)
        self._waits_to_write = False
        ends = [theirs.fileno(), self.tracebacks.writing_end]
        try:
            sandbox.spawn(limits, ends, with_compiler=with_compiler)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
            os.close(self.tracebacks.writing_end)

    def cpu_seconds(self) -> float | None:
        """The CPU time that all its processes have used; None if it has ended with its box."""
        try:
            return self._sandbox.activity().cpu_seconds_of_all
        except GraderFault:
            self.close()
            return None

    def begin(self, frames: list[protocol.Buffer]) -> None:
        """Send the first request, and wait until the child is about to run student code.

        Raises:
            GraderFault: The child exits too early or takes too long. It has not run any student
                code, so this is not the student's fault.
        """
        try:
            said = self.exchange(frames, time.monotonic() + BEGIN_SECONDS)
        except Late:
            self.end()
            raise GraderFault(
                f"a test's process was not ready after {BEGIN_SECONDS:.0f} s"
            ) from None
        except (Gone, protocol.ProtocolError):
            ending = self.end()
            how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit}"
            *_, reason = self.tracebacks.text.strip().splitlines() or ["it printed no reason"]
            text = (
                f"a test's process ended ({how}) before it ran any student code: "
                f"{printable(reason, 500)}"
            )
            raise GraderFault(text) from None
        if said != {"begins": True}:
            raise GraderFault("a test's process answered before it was asked")

    def read_traceback(self) -> float:
        """Have the child print a traceback; keep only what it prints within a moment.

        Return how many seconds student code may have kept the grader waiting.
        """
        pipe = self.tracebacks
        if not pipe.is_open:
            return 0.0
        started = time.monotonic()
        pipe.forget()  # student code may have printed there too
        self._sandbox.print_traceback()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        pause, deadline = TRACEBACK_SECONDS, time.monotonic() + TRACEBACK_SECONDS
        while time.monotonic() < deadline and poll.poll(1000 * pause) and pipe.read():
            pause = TRACEBACK_SECONDS / 20  # the rest of the traceback follows at once
        return time.monotonic() - started

    def end(self) -> Ending:
        """End the child, and read the rest of its tracebacks.

        Raises:
            GraderFault: See `Sandbox.end`.
        """
        self.hang_up()
        try:
            return self._sandbox.end()
        finally:
            self.tracebacks.read_the_rest()
            self.close()

    def end_soon(self, charge: Callable[[Ending], None]) -> None:
        """End the child without waiting for it.

        Args:
            charge: Called with how it ended, before the next test begins.
        """
        self.close()
        self._sandbox.end_soon(charge)

    def exchange(
        self, frames: list[protocol.Buffer], deadline: float, watch: Watch | None = None
    ) -> Any:
        """Send requests and wait for one reply, while reading tracebacks.

        Args:
            frames: The requests.
            deadline: By time.monotonic().
            watch: Checked from time to time.

        Raises:
            Late: No reply came before the deadline.
            Gone: The child closed its socket before it replied.
            ProtocolError: It sent something that is not a frame.
        """
        waiting = list(frames)
        reader = protocol.FrameReader(max(0, self.bytes_left))
        self._write(waiting)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late
            if watch:
                watch.check()
                left = min(left, watch.pause)
            for descriptor, events in self._poll.poll(1000 * left):
                if descriptor != self._socket.fileno():
                    self._read_tracebacks()
                    continue
                if events & select.POLLOUT:
                    self._write(waiting)
                if events & ~select.POLLOUT and self._read(reader):
                    value = reader.value()
                    self.bytes_left -= reader.kept_bytes
                    return value

    def _read_tracebacks(self) -> None:
        if not self.tracebacks.read():
            self._poll.unregister(self.tracebacks)
            self.tracebacks.close()

    def _write(self, waiting: list[protocol.Buffer]) -> None:
        """Send what is possible without blocking, and remove it from the list."""
        try:
            protocol.write(self._socket, waiting)
        except BlockingIOError:
            pass
        except ConnectionError:
            raise Gone from None
        if self._waits_to_write != bool(waiting):
            self._waits_to_write = bool(waiting)
            self._poll.modify(self._socket, select.POLLIN | (select.POLLOUT if waiting else 0))

    def _read(self, reader: protocol.FrameReader) -> bool:
        """Receive what is possible without blocking; return whether the reply is complete."""
        try:
            return reader.read_from(self._socket)
        except BlockingIOError:
            return False
        except (EOFError, ConnectionError):
            raise Gone from None

    def hang_up(self) -> None:
        """Close the socket, so that the child can no longer be reached; keep the pipe."""
        if self.is_open:
            self.is_open = False
            self._socket.close()

    def close(self) -> None:
        """Close the socket and the pipe; what is still in the pipe is lost."""
        self.hang_up()
        self.tracebacks.close()
