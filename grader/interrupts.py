"""Ctrl-C and its relatives: a command ends at once, and what it was to write is not written.

The first signal raises KeyboardInterrupt wherever the program is. Something may swallow that (a destructor, a library written
in C++), so the signal is also noted: `stop_if_seen` raises again, files are not written once there was one, and the exit code
goes by it.
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
    """Turn the signals into KeyboardInterrupt from here on, but for those that whoever started this process has ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _seen
    _seen = number
    sys.unraisablehook = lambda _: None  # says on stderr what a destructor swallowed
    if not _held:
        raise KeyboardInterrupt


def seen() -> int:
    """The number of the signal that there was, or 0."""
    return _seen


def stop_if_seen() -> None:
    """Raise KeyboardInterrupt again where something swallowed it."""
    if _seen:
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Inside, a signal is noted and nothing is raised; afterwards it is."""
    global _held
    _held = True
    try:
        yield
    finally:
        _held = False
    stop_if_seen()


def no_more() -> None:
    """Ignore the signals from here on: the command ends anyway."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
