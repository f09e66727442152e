"""The grader's connection to one child: a socket, and pipes for what the child prints."""

import os
import select
import selectors
import socket
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from grader.wire import protocol

PIECE = 65536


class Pipe:
    """The reading end of a pipe; if too much arrives, the middle is dropped.

    Args:
        head_bytes: How much to keep from the beginning.
        tail_bytes: How much to keep from the end.

    Attributes:
        is_open: Whether the reading end is open.
        writing_end: The descriptor for the writing process; the caller closes it after the fork.
    """

    def __init__(self, *, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes, self._tail_bytes = head_bytes, tail_bytes
        self._kept = bytearray()
        self.is_open = True
        self._fd, self.writing_end = os.pipe()
        os.set_blocking(self._fd, False)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._fd

    @property
    def text(self) -> str:
        """The output so far, with invalid UTF-8 replaced."""
        self._drop_the_middle(spare_bytes=0)
        return self._kept.decode(errors="replace")

    def read(self) -> bool:
        """Keep what has arrived; return False once the writing end is closed everywhere."""
        with suppress(BlockingIOError):
            piece = os.read(self._fd, PIECE)
            self._kept += piece
            # Dropping moves the whole tail, which small pieces must not cause each time.
            self._drop_the_middle(spare_bytes=self._tail_bytes)
            return bool(piece)
        return True

    def _drop_the_middle(self, *, spare_bytes: int) -> None:
        """Drop what is too much, if it is more than this."""
        too_much = len(self._kept) - self._head_bytes - self._tail_bytes
        if too_much > spare_bytes:
            del self._kept[self._head_bytes : self._head_bytes + too_much]

    def forget(self) -> None:
        """Drop all output so far, including what is still in the kernel's buffer of the pipe."""
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


# How much a socket holds, if the system allows so much, before its writer has to wait.
SOCKET_BYTES = 2**20
MAX_TRACEBACKS = 64 * 1024  # how many of the last bytes of Python's own tracebacks are kept


class Late(Exception):
    """No reply before the deadline."""


class Gone(Exception):
    """The child has closed its socket, so it has ended."""


class Watch(ABC):
    """Ends the wait for a reply by an exception, if the child does what it must not do.

    Attributes:
        pause: The seconds between two checks.
    """

    pause: float

    @abstractmethod
    def check(self) -> None:
        """Raise an exception if the wait has to end."""


class Channel:
    """The ends of the socket and of the pipes.

    Args:
        output_bytes: How much to keep of what the child prints.
    """

    def __init__(self, output_bytes: int) -> None:
        half = output_bytes // 2
        self.output = Pipe(head_bytes=half, tail_bytes=half)  # what the student's code prints
        # Where Python itself prints tracebacks.
        self.tracebacks = Pipe(head_bytes=0, tail_bytes=MAX_TRACEBACKS)
        self._socket, self._childs_socket = socket.socketpair()
        self._socket.setblocking(False)
        for one in (self._socket, self._childs_socket):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        self.is_open = True  # whether the child can still be reached
        self.bytes_left = protocol.MAX_ANSWER_BYTES  # how much memory further replies may take
        # `selectors` would take longer than most calls.
        self._poll = select.poll()
        # The pipes come first, so that what was printed is read before the reply is returned.
        self._pipes = {pipe.fileno(): pipe for pipe in (self.output, self.tracebacks)}
        for descriptor in (*self._pipes, self._socket.fileno()):
            self._poll.register(descriptor, select.POLLIN)
        self._waits_to_write = False

    @property
    def childs_ends(self) -> list[int]:
        """The descriptors of the child's socket and of the writing ends of both pipes."""
        return [self._childs_socket.fileno(), self.output.writing_end, self.tracebacks.writing_end]

    def close_childs_ends(self) -> None:
        """Close this process's copies of the child's descriptors."""
        self._childs_socket.close()
        for pipe in (self.output, self.tracebacks):
            os.close(pipe.writing_end)

    def exchange(
        self, frames: list[protocol.Buffer], deadline: float, watch: Watch | None = None
    ) -> Any:
        """Send requests and wait for one reply, while reading what the child prints.

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
                if pipe := self._pipes.get(descriptor):
                    self._read_pipe(descriptor, pipe)
                    continue
                if events & select.POLLOUT:
                    self._write(waiting)
                if events & ~select.POLLOUT and self._read(reader):
                    value = reader.value()
                    self.bytes_left -= reader.kept_bytes
                    return value

    def _read_pipe(self, descriptor: int, pipe: Pipe) -> None:
        if not pipe.read():
            self._poll.unregister(descriptor)
            del self._pipes[descriptor]
            pipe.close()

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
        """Close the socket, so that the child can no longer be reached; keep the pipes."""
        if self.is_open:
            self.is_open = False
            self._socket.close()

    def read_the_rest(self) -> None:
        """Keep what is still in the pipes, after the child has ended, and close them."""
        for pipe in self._pipes.values():
            pipe.read_the_rest()
        self.close()

    def close(self) -> None:
        """Close the socket and the pipes; what is still in the pipes is lost."""
        self.hang_up()
        for pipe in self._pipes.values():
            pipe.close()
        self._pipes.clear()
