"""A pipe for the output of a test's process, which keeps a limited amount of it."""

import os
import selectors
from contextlib import suppress

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
