"""mean_length: compared with the module statistics."""

import statistics

import pytest

from kit import expect


@pytest.mark.harm("wrong number")
def test_the_mean(student, rng):
    """The mean of words of different lengths."""
    words = ["x" * rng.randrange(1, 9) for _ in range(7)]
    expected = statistics.mean(map(len, words))
    got = student.words.mean_length(words)
    expect.number(got, expected, of="mean_length", tolerance=1e-9, hint="a sum over a number")
