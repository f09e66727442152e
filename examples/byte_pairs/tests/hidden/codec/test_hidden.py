"""codec: encoded words by the definition, and decoded again."""

import json
from pathlib import Path

import pytest

from kit import expect

WORDS = json.loads(Path(__file__).with_name("words.json").read_text())
MERGES = [(b"a", b"b"), (b"l", b"o"), (b"lo", b"w"), (b"ab", b"ab"), (b"\xc3", b"\xa9")]


# Stays: this test checks the ids; the next one checks the order of merges.
@pytest.mark.harm("wrong number")
@pytest.mark.parametrize(("word", "ids"), WORDS.items())
def test_words(student, word, ids):
    """The merges are applied in their order; the i-th one makes the id 256 + i."""
    got = student.codec.encode(word, MERGES)
    expect.value(got, ids, of="encode", inputs=repr(word), hint="256 bytes come first")


@pytest.mark.harm("wrong number")
def test_a_pair_that_occurs_several_times(student):
    """A merge is applied wherever its pair occurs, from left to right."""
    got = student.codec.encode("ababab", MERGES)
    expect.value(got, [259, 256], of="encode", hint="from left to right")
    got = student.codec.encode("aaa", [(b"a", b"a")])
    expect.value(got, [256, 97], of="encode", hint="from left to right")


@pytest.mark.harm("wrong number")
@pytest.mark.parametrize("word", ["abab low é", "", "日本語"])
def test_there_and_back(student, word):
    """Decoding gives the text again."""
    ids = [*word.encode()]
    expect.value(student.codec.decode(ids, MERGES), word, of="decode", inputs=repr(word))
    got = student.codec.decode([256, 258, 259], MERGES)
    expect.value(got, "ablowabab", of="decode", hint="256 + i is the i-th merge")


@pytest.mark.harm("crash")
def test_bytes_that_are_no_text(student):
    """They become U+FFFD."""
    got = student.codec.decode([0xC3, 97], MERGES)
    expect.value(got, "\ufffda", of="decode", hint='errors="replace"')
