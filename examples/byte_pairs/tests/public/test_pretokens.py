"""pretokens: the handout's example."""

from kit import expect


def test_pretokens_of_the_worked_example(student):
    """Two words, and a special token."""
    got = student.pretokens.count_pretokens("low low<|end|>low", ["<|end|>"])
    expect.value(got, {"low": 2, " low": 1}, of="count_pretokens", inputs="low low<|end|>low")


def test_pretokens_of_two_texts(student):
    """Two processes."""
    got = student.pretokens.count_in_parallel(["low low", "low"], 2)
    expect.value(got, {"low": 2, " low": 1}, of="count_in_parallel", inputs="low low / low")
