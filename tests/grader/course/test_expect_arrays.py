"""`expect.array` judges as `expect.tensor` does, and in the same words."""

import numpy as np
import pytest
import torch

from kit import expect

NAN, INF = float("nan"), float("inf")
# What was returned and what is expected, and the tolerances.
PAIRS = {
    "equal": ([[1.0, 2.0]], [[1.0, 2.0]], {}),
    "another shape": ([1.0, 2.0], [[1.0, 2.0]], {}),
    "one entry off": ([[1.0, 2.0], [3.0, 4.5]], [[1.0, 2.0], [3.0, 4.0]], {}),
    "within the tolerance": ([1.0, 2.01], [1.0, 2.0], {"atol": 0.02}),
    "within the relative tolerance": ([1.0, 202.0], [1.0, 200.0], {"rtol": 0.02}),
    "beyond both tolerances": ([1.0, 210.0], [1.0, 200.0], {"rtol": 0.02, "atol": 1.0}),
    "NaN": ([1.0, NAN], [1.0, 2.0], {}),
    "NaN where NaN is expected": ([1.0, NAN], [1.0, NAN], {}),
    "infinite": ([1.0, INF], [1.0, 2.0], {}),
    "infinite as expected": ([1.0, INF], [1.0, INF], {"rtol": 0.1}),
    "infinite with another sign": ([1.0, -INF], [1.0, INF], {"rtol": 0.1}),
    "finite where infinity is expected": ([1.0, 2.0], [1.0, INF], {"rtol": 0.1}),
    "integers": ([1, 2, 3], [1, 2, 4], {"atol": 9.0}),
    "bools": ([True, False], [True, True], {}),
    "complex": ([1j, 2.0], [1j, 2.5], {"atol": 0.1}),
    "no dimensions": (1.5, 1.0, {}),
    "no entries": ([], [], {}),
}


def mismatch(check, got, expected, **options):
    """What a check says, in all its parts; None if it accepts the answer."""
    try:
        check(got, expected, of="f", name="the mean", inputs="x", hint="why?", **options)
    except expect.Mismatch as e:
        return [str(e), e.facts, e.values, e.hint]
    return None


@pytest.mark.parametrize("case", PAIRS)
def test_arrays_and_tensors_are_judged_alike(case):
    """Both have the same order of checks, wording and tolerances."""
    got, expected, tolerances = PAIRS[case]
    arrays = mismatch(expect.array, np.array(got), np.array(expected), **tolerances)
    tensors = mismatch(
        expect.tensor,
        torch.from_numpy(np.array(got)),
        torch.from_numpy(np.array(expected)),
        **tolerances,
    )
    if tensors and "NaN" in case:  # only new memory of torch holds NaN
        tensors[1] = tuple(fact for fact in tensors[1] if fact not in expect.UNWRITTEN_HERE)
    assert tensors == arrays
    assert (
        "equal" in case or "within" in case or "as expected" in case or "no entries" in case
    ) == (arrays is None)


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (None, "None instead of the mean"),
        ([1.0], "wrong type of the mean: expected an array, got list"),
        (np.float64(1), "wrong type of the mean: expected an array, got float64"),
        (1.0, "wrong type of the mean: expected an array, got float"),
        (np.ones(1, np.float32), "wrong dtype of the mean: expected float64, got float32"),
        (np.ones(2, np.float32), "wrong shape of the mean: expected (1,), got (2,)"),
    ],
)
def test_the_first_thing_that_is_wrong_is_reported(got, said):
    """Nothing, the type, the shape and the dtype come before the values."""
    assert f"f: {said}" == mismatch(expect.array, got, np.ones(1))[0]


def test_overflow_in_a_comparison_is_no_warning():
    """Two large numbers whose difference is infinite are different, and nothing else happens."""
    (text, *_) = mismatch(expect.array, np.array([1e308]), np.array([-1e308]), rtol=0.1)
    assert "f: wrong values of the mean (shape and dtype are right)" == text
