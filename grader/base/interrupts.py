"""Handling of Ctrl-C and related signals: a command ends at once and writes no further files.

The first signal raises KeyboardInterrupt wherever the program is. A destructor or a C++ library may
swallow that exception, so the signal is also recorded: `stop_if_seen` raises again, no file is
written after a signal, and the exit code depends on the recorded signal.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_seen = 0  # the signal's number
_held = False


def watch() -> None:
    """From now on, turn the signals into KeyboardInterrupt, except those ignored at the start."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _seen
    _seen = number
    sys.unraisablehook = lambda _: None  # it would print exceptions that destructors swallowed
    if not _held:
        raise KeyboardInterrupt


def seen() -> int:
    """The number of the recorded signal, or 0."""
    return _seen


def stop_if_seen() -> None:
    """Raise KeyboardInterrupt again if a signal was seen.

    The first exception may have been swallowed.
    """
    if _seen:
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Record signals inside the block without raising; raise after the outermost block."""
    global _held
    outer, _held = _held, True
    try:
        yield
    finally:
        _held = outer
    if not outer:
        stop_if_seen()


def no_more() -> None:
    """Ignore further signals, because the command is exiting anyway."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
