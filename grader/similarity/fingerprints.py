"""Fingerprints of source code that renaming, reformatting and reordering do not change.

A source becomes a sequence of tokens by Pygments, in which names, strings and layout do not matter.
Hashes of all runs of K tokens are thinned out by winnowing (Schleimer, Wilkerson and Aiken,
"Winnowing: local algorithms for document fingerprinting", SIGMOD 2003): of every WINDOW hashes in a
row, the smallest is kept. Two sources that share K + WINDOW - 1 tokens in a row therefore share a
fingerprint, wherever they are, and no run shorter than K is ever noticed.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pygments.lexers import PythonLexer
from pygments.token import Comment, Name, String

# Of what benchmarks/similarity.py tried, these tell copies from independent work best.
K = 30  # tokens of a fingerprint, about three lines
WINDOW = 10  # fingerprints of which one is kept
MAX_SOURCE = 200_000  # characters of a source that are read
MAX_WIDTH = 1_000  # characters of a line
MAX_TOKENS = 60_000
LEXER = PythonLexer(stripnl=False, ensurenl=False)
LINE_END = re.compile(r"\r\n|\r|\n")
# A comma at the end of a list comes and goes with its layout.
IGNORED = {",", ";"}


BASE, SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # odd numbers
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Mark:
    """One token: what counts of it, and the line that it is on."""

    text: str
    line: int


@dataclass(frozen=True)
class Print:
    """One fingerprint: its hash, and the lines from the first to the last of its tokens."""

    hash: int
    first: int
    last: int


def marks(source: str) -> list[Mark]:
    """The tokens of a source, without comments, layout and docstrings.

    A name becomes N, unless Python or the language defines it; a string becomes S. Numbers stay, as
    constants are what a formula consists of.
    """
    numbered = [(n, t[:MAX_WIDTH]) for n, t in enumerate(_lines(source), 1) if t.strip()]
    found: list[Mark] = []
    at, begins = 0, True  # the line, and whether the next token begins a statement
    kind: Any
    for kind, text in LEXER.get_tokens("\n".join(text.rstrip() for _, text in numbered)):
        shown = _shown(kind, text)
        is_docstring = begins and kind in String
        if shown and not is_docstring:
            if not (shown == "S" and found and found[-1].text == "S"):  # one string has many tokens
                found.append(Mark(shown, numbered[min(at, len(numbered) - 1)][0]))
            begins = False
        elif "\n" in text and kind not in String:
            begins = True
        at += text.count("\n")
        if len(found) >= MAX_TOKENS:
            break
    return found


def _lines(source: str) -> list[str]:
    """All lines. Blank ones never reach Pygments, which takes minutes for a file of them."""
    return LINE_END.split(source[:MAX_SOURCE])


def _shown(kind: Any, text: str) -> str:
    """What counts of a token; empty if nothing does."""
    if kind in Comment or text in IGNORED or not text.strip():
        return ""
    if kind in String:
        return "S"
    return "N" if kind in Name and kind not in Name.Builtin else text


def prints(source: str) -> list[Print]:
    """The fingerprints of a source, in order."""
    found = marks(source)
    if len(found) < K:
        return []
    hashes = _hashes([mark.text for mark in found])
    return [
        Print(int(hashes[i]), found[i].line, found[i + K - 1].line) for i in _kept(hashes).tolist()
    ]


def _hashes(texts: list[str]) -> Hashes:
    """A hash of every K texts in a row, by a polynomial modulo 2^64."""
    known = {text: _hash(text) for text in set(texts)}
    each = np.array([known[text] for text in texts], dtype=np.uint64)
    total = np.zeros(len(texts) - K + 1, dtype=np.uint64)
    for place in range(K):
        total = total * BASE + each[place : place + len(total)]
    return total * SPREAD  # so that the smallest is not the one with a certain last token


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _kept(hashes: Hashes) -> npt.NDArray[np.intp]:
    """The places of the hashes that winnowing keeps: of equal ones, the last."""
    windows = np.lib.stride_tricks.sliding_window_view(hashes, min(WINDOW, len(hashes)))
    last = windows.shape[1] - 1 - np.argmin(windows[:, ::-1], axis=1)
    return np.unique(np.arange(len(windows)) + last)
