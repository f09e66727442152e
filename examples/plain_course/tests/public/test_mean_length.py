"""mean_length: the handout's example."""

from kit import expect


def test_the_example(student):
    """Two words."""
    got = student.words.mean_length(["a", "bcd"])
    expect.number(got, 2, of="mean_length", tolerance=1e-9)
