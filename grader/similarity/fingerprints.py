"""Fingerprints of source code that renaming, reformatting and reordering do not change.

Pygments splits a source into tokens, in which names, strings and layout do not matter. Each run of
K tokens gets a hash, and winnowing keeps some of these hashes as fingerprints (Schleimer, Wilkerson
and Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003): the smallest of
every WINDOW hashes in a row. Two sources that share K + WINDOW - 1 tokens in a row therefore share
a fingerprint, wherever these tokens are, and a shared run shorter than K is never noticed.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pygments.lexers import PythonLexer
from pygments.token import Comment, Name, String

# Among the values tried with benchmarks/similarity.py, these separate copies from independent work
# best.
K = 30  # tokens per fingerprint, about three lines
WINDOW = 10  # winnowing keeps one of this many hashes
MAX_SOURCE = 200_000  # characters of a source that are read
MAX_WIDTH = 1_000  # characters of a line
MAX_TOKENS = 60_000
LEXER = PythonLexer(stripnl=False, ensurenl=False)
LINE_END = re.compile(r"\r\n|\r|\n")
# Whether a list ends with a comma depends on its layout.
IGNORED = {",", ";"}


BASE, SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # odd numbers
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Mark:
    """One token: the text that is compared, and its line."""

    text: str
    line: int


@dataclass(frozen=True)
class Print:
    """One fingerprint: its hash, and the lines of its first and last tokens."""

    hash: int
    first: int
    last: int


def marks(source: str) -> list[Mark]:
    """The tokens of a source, without comments, layout and docstrings.

    A name becomes N, unless it is a builtin or a keyword; a string becomes S. Numbers are kept,
    because constants characterise a formula.
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
    """All lines. The caller drops blank ones, because Pygments takes minutes for many of them."""
    return LINE_END.split(source[:MAX_SOURCE])


def _shown(kind: Any, text: str) -> str:
    """The text of a token that is compared; empty if the token is ignored."""
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
    return total * SPREAD  # otherwise the last token would decide which hash is the smallest


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _kept(hashes: Hashes) -> npt.NDArray[np.intp]:
    """The indices of the hashes that winnowing keeps; among equal hashes, the last."""
    windows = np.lib.stride_tricks.sliding_window_view(hashes, min(WINDOW, len(hashes)))
    last = windows.shape[1] - 1 - np.argmin(windows[:, ::-1], axis=1)
    return np.unique(np.arange(len(windows)) + last)
