"""Item analysis agrees with its textbook definitions and makes the right remark about each test."""

import math

import numpy as np
import pytest

from grader.analysis import item_analysis
from grader.analysis.item_analysis import Try


def test_difficulty_is_the_share_that_passes():
    assert 0.75 == item_analysis.difficulty([True, True, True, False])
    assert item_analysis.difficulty([]) is None


@pytest.mark.parametrize("seed", range(5))
def test_discrimination_is_the_point_biserial_correlation(seed):
    """(mean of those who pass - mean of those who fail) / standard deviation of all · √(p q)."""
    rng = np.random.default_rng(seed)
    rest = rng.normal(50, 20, 60)
    passed = [bool(x) for x in rest + rng.normal(0, 30, 60) > 50]
    share = sum(passed) / 60
    means = [np.mean([x for x, ok in zip(rest, passed, strict=True) if ok is which])
             for which in (True, False)]  # fmt: skip
    expected = (means[0] - means[1]) / np.std(rest) * math.sqrt(share * (1 - share))
    assert item_analysis.discrimination(passed, list(rest)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("passed", "failed", "points", "is_known"),
    [
        (40, 0, None, False),
        (0, 40, None, False),
        (4, 36, None, False),
        (36, 4, None, False),
        (35, 5, 7.0, False),
        (35, 5, None, True),
        (0, 0, None, False),
    ],
)
def test_a_discrimination_is_known_if_some_pass_some_fail_and_points_differ(
    passed, failed, points, is_known
):
    rest = [float(n) if points is None else points for n in range(passed + failed)]
    outcomes = [True] * passed + [False] * failed
    assert (item_analysis.discrimination(outcomes, rest) is not None) == is_known


@pytest.mark.parametrize(
    ("passed", "correlation", "expected"),
    [
        ([False] * 30, None, item_analysis.NOBODY_PASSES),
        ([True] * 30, None, item_analysis.NOBODY_FAILS),
        ([True, False] * 100, -0.3, item_analysis.STRONG_FAIL),
        ([True, False] * 100, 0.0, item_analysis.SAYS_LITTLE),
        ([True, False] * 100, 0.3, ""),
        ([True, False] * 100, -1.0, item_analysis.STRONG_FAIL),
        ([True] * 185 + [False] * 15, 0.0, ""),  # an easy test separates few students
        ([True] * 185 + [False] * 15, -0.3, item_analysis.STRONG_FAIL),
        ([True, False] * 15, 0.0, ""),  # with so few students, chance may be the reason
        ([True, False] * 15, None, ""),
        ([False] * 19, None, ""),
        ([True] * 19, None, ""),
    ],
)
def test_what_is_said_of_a_test(passed, correlation, expected):
    """A good test gets no remark, nor does one whose correlation may be due to chance."""
    assert expected == item_analysis.remark(passed, correlation)


def tried(**shares):
    """An attempt with these shares; each problem that is not full fails two tests."""
    failed = {name: ["test_b", "test_c"] if share < 1 else [] for name, share in shares.items()}
    return Try(shares, failed)


ROSE = [tried(linear=0.5), tried(linear=1.0)]
STALLS = [tried(linear=0.5), tried(linear=0.75), tried(linear=0.5)]
BEGAN_LATE = [tried(), tried(linear=0.25)]
ONCE = []


def test_a_problem_goes_from_first_to_best():
    """Only students who began it in two attempts count."""
    found = item_analysis.advance("linear", [ROSE, ONCE, STALLS, BEGAN_LATE])
    assert (found.tried, found.stalled) == ([0, 2], [2])
    assert (found.first, found.best) == (0.5, 0.875)
    assert (found.last_failed, found.failing) == ("test_b", 1)
    assert item_analysis.advance("adamw", [ROSE, STALLS]) is None


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
    assert item_analysis.is_stalled("linear", [tried(linear=share) for share in shares]) == stalls
