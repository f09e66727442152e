"""train: the handout's example."""

from kit import expect


def test_train_on_the_worked_example(student):
    """One merge."""
    got = student.train.learn_merges({"aab": 2, "ab": 1}, 1)
    expect.value(got, [(b"a", b"b")], of="learn_merges", inputs="aab twice, ab once")
