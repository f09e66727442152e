"""A pipe that a test's process writes to: what came out of it, as much as is kept."""

import os
import selectors
from contextlib import suppress

PIECE = 65536


class Pipe:
    """The reading end of a pipe; of what comes too much, the middle is dropped.

    Args:
        head_bytes: How much is kept of the beginning.
        tail_bytes: How much is kept of the end.

    Attributes:
        is_open: Whether this end is.
        writing_end: For the process that writes to it; whoever forks it closes this one.
    """

    def __init__(self, *, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes, self._tail_bytes = head_bytes, tail_bytes
        self._kept = bytearray()
        self.is_open = True
        self._fd, self.writing_end = os.pipe()
        os.set_blocking(self._fd, False)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._fd

    @property
    def text(self) -> str:
        """What came, with whatever is no text replaced."""
        return self._kept.decode(errors="replace")

    def read(self) -> bool:
        """Keep what has come; False when nobody can write to it any more."""
        with suppress(BlockingIOError):
            piece = os.read(self._fd, PIECE)
            self._kept += piece
            too_much = max(0, len(self._kept) - self._head_bytes - self._tail_bytes)
            del self._kept[self._head_bytes : self._head_bytes + too_much]
            return bool(piece)
        return True

    def read_the_rest(self) -> None:
        """Keep what is still in it, once all who wrote to it have ended."""
        with selectors.DefaultSelector() as selector:
            if self.is_open:
                selector.register(self, selectors.EVENT_READ)
                while selector.select(0) and self.read():
                    pass

    def close(self) -> None:
        """Close this end; what came stays."""
        if self.is_open:
            os.close(self._fd)
            self.is_open = False
