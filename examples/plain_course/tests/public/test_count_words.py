"""count_words: the handout's example."""

from kit import expect


def test_the_example(student):
    """A word in both cases."""
    expect.value(student.words.count_words("A b a"), {"a": 2, "b": 1}, of="count_words")
