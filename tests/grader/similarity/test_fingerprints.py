"""What a fingerprint depends on, and what it ignores."""

import random

import pytest

from grader.similarity import fingerprints
from grader.similarity.fingerprints import WINDOW, K, marks, prints

SOURCE = '''
"""The module."""

import math


def area(radius, *, scale=1.5):
    """The area.

    With an example.
    """
    total = 0.0
    for step in range(10):
        total += math.pi * radius**2 * scale  # a comment
    name = f"area {total:.2f}" "of" 'a circle'
    return total if name else len([step, 2])
'''


def texts(source):
    return [mark.text for mark in marks(source)]


def test_names_become_one_but_builtins_and_numbers_stay():
    """Renaming therefore does not help, but a formula keeps its constants."""
    assert texts("width = len(height) * 2.5") == ["N", "=", "len", "(", "N", ")", "*", "2.5"]


def test_strings_are_one_token_and_docstrings_none():
    """This also holds for concatenated, multi-line and prefixed strings."""
    assert ["N", "=", "S", "return", "S"] == texts("x = 'a' \"b\"\nreturn '''\nc\nd'''")
    assert [] == texts('"""A docstring."""\n\n\'another\'\n')
    assert texts('def f():\n    "text"\n    return 1') == ["def", "N", "(", ")", ":", "return", "1"]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.replace("radius", "r").replace("total", "t").replace("area", "a"),
        lambda s: s.replace("    ", "\t"),
        lambda s: s.replace("\n", "\r\n"),
        lambda s: s.replace("\n", "\n\n\n"),
        lambda s: s.replace("# a comment", ""),
        lambda s: s.replace("(radius, *, scale=1.5)", "(\n    radius,\n    *,\n    scale=1.5,\n)"),
        lambda s: s.replace('"""The area.', '"""Something else.'),
    ],
)
def test_layout_names_and_comments_make_no_difference(change):
    """Such a change leaves the fingerprints the same."""
    assert [one.hash for one in prints(SOURCE)] == [one.hash for one in prints(change(SOURCE))]


def test_other_code_has_other_fingerprints():
    """A changed constant or operator changes the fingerprints."""
    one = {p.hash for p in prints(SOURCE)}
    assert one
    assert one != {p.hash for p in prints(SOURCE.replace("1.5", "2.5"))}
    assert one != {p.hash for p in prints(SOURCE.replace("+=", "-="))}


def test_winnowing_never_misses_a_long_common_run():
    """A common run of K + WINDOW - 1 tokens shares a fingerprint (Schleimer et al.)."""
    rng = random.Random(0)
    words = ["if", "for", "while", "return", "+", "-", "*", "1", "2", "3", "(", ")", "[", "]"]
    for _ in range(30):
        common = " ".join(rng.choices(words, k=K + WINDOW - 1))
        one, other = (
            f"{' '.join(rng.choices(words, k=rng.randrange(80)))} {common} "
            f"{' '.join(rng.choices(words, k=rng.randrange(80)))}"
            for _ in range(2)
        )
        assert {p.hash for p in prints(one)} & {p.hash for p in prints(other)}


def test_winnowing_keeps_few():
    """About 2 of every WINDOW + 1 are kept, as in the paper, and at least 1 of every WINDOW."""
    rng = random.Random(1)
    source = "\n".join(rng.choices(["if", "+", "-", "1", "2", "3", "4", "5"], k=5_000))
    kept = len(prints(source))
    assert 5_000 / WINDOW * 0.9 < kept < 2.5 * 5_000 / (WINDOW + 1)


def test_lines_are_those_of_the_file():
    """Blank lines and docstrings count in line numbers, although they have no fingerprints."""
    source = '"""Doc.\n\nMore."""\n\n\n' + "x = 1 + 2 - 3 * 4\n" * 40
    found = prints(source)
    assert 6 == found[0].first
    assert all(6 <= one.first <= one.last <= 45 for one in found)
    assert 45 == found[-1].last or found[-1].last >= 43


@pytest.mark.parametrize(
    "text",
    ["\n    " * 40_000, "'" * 200_000, "(" * 200_000, "f'{" * 60_000, "a\n'''" * 9_000, "\x00é\r\n",
     "", "\ud800".encode("utf-8", "replace").decode()],
)  # fmt: skip
def test_hostile_sources_are_read_like_others(text):
    """No source takes long, because one student's file must not block the command."""
    assert len(marks(text)) <= fingerprints.MAX_TOKENS
    prints(text)
