"""count_words: compared with collections.Counter."""

from collections import Counter

import pytest

from kit import expect


@pytest.mark.harm("wrong number")
def test_words_in_any_case(student, rng):
    """The counts do not depend on the case of a word."""
    words = [rng.choice(["a", "B", "b", "cc"]) for _ in range(20)]
    right = dict(Counter(map(str.lower, words)))
    got = student.words.count_words("  ".join(words))
    expect.value(got, right, of="count_words", hint="lower()")
