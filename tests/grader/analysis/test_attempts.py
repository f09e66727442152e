"""From first to best: the counts agree with counts that were worked out by hand."""

import pytest

from grader.analysis import items
from grader.analysis.items import Try


def tried(**shares):
    """An attempt with these shares; each problem that is not full fails two tests."""
    failed = {name: ["test_b", "test_c"] if share < 1 else [] for name, share in shares.items()}
    return Try(10 * sum(shares.values()), shares, failed)


ROSE = [tried(linear=0.5), tried(linear=1.0)]
STALLS = [tried(linear=0.5), tried(linear=0.75), tried(linear=0.5)]
BEGAN_LATE = [tried(), tried(linear=0.25)]
ONCE = []


def test_a_problem_goes_from_first_to_best():
    """Only students who began it in two attempts count."""
    found = items.advance("linear", [ROSE, ONCE, STALLS, BEGAN_LATE])
    assert (found.tried, found.stalled) == ([0, 2], [2])
    assert (found.first, found.best) == (0.5, 0.875)
    assert (found.last_failed, found.failing) == ("test_b", 1)
    assert items.advance("adamw", [ROSE, STALLS]) is None


@pytest.mark.parametrize(
    ("shares", "stalls"),
    [
        ([0.5], False),
        ([0.5, 0.5], True),
        ([0.5, 0.6], False),
        ([0.5, 1.0], False),
        ([1.0, 0.5], True),
        ([1.0, 1.0], False),
        ([0.2, 0.6, 0.5], True),
        ([], False),
    ],
)
def test_who_stalls(shares, stalls):
    """Whose last attempt gained nothing, and is not full."""
    assert items.is_stalled("linear", [tried(linear=share) for share in shares]) == stalls


def test_a_student_in_words():
    assert items.in_words(STALLS, ["linear"]) == "5 → 7.5 → 5; stalls at linear (test_b)"
    assert items.in_words(ROSE, ["linear"]) == "5 → 10"
    assert items.in_words(ROSE[:1], ["linear"]) == ""
