"""The text of the flight: the source of Python's standard library, which every Python brings along.

Nothing is downloaded, and nothing has to be shipped. The tokens are bytes.
"""

import math
import os
from pathlib import Path

import numpy as np

VOCABULARY = 256
MEGABYTES = 4
# Generated tables, and modules that differ between platforms.
SKIPPED = ("_sysconfigdata", "pydoc_data", "encodings", "idlelib", "test", "lib2to3", "ensurepip")


def sources() -> list[Path]:
    """The modules that the text is made of, in alphabetical order."""
    library = Path(os.__file__).parent
    found = [*library.glob("*.py"), *library.glob("*/*.py")]
    named = {path.relative_to(library).as_posix(): path for path in found}
    names = [name for name in sorted(named) if not name.startswith(SKIPPED)]
    return [named[name] for name in names if "site-packages" not in name]


def make(megabytes: float = MEGABYTES) -> bytes:
    """So many megabytes of source code."""
    size, text = int(megabytes * 10**6), bytearray()
    for path in sources():
        text += path.read_bytes()
        if len(text) >= size:
            break
    return bytes(text[:size])


def entropy(tokens: np.ndarray) -> float:
    """The loss in nats of a model that knows only how often each byte occurs."""
    share = np.bincount(tokens, minlength=VOCABULARY) / len(tokens)
    shares: list[float] = share.tolist()
    return -sum(p * math.log(p) for p in shares if p)
