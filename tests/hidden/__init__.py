"""Hidden tests: a folder per problem, with test_hidden.py and, for a GPU, test_cuda.py.

They run in the grader's process and reach the student's code only through the `student` fixture.
The first paragraph of a test's docstring is the rule that the report shows if the test fails.

Here is what several of them draw or check.
"""

import torch

from kit import expect

TOLERANCE = 1e-6  # of a number, relative
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def integers(rng, low, high, count=1):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))


def device(rng, *, one_peak=False):
    """The fields of a made-up device, with one peak for all dtypes or a different one for each."""
    peak, times = uniform(rng, 1e13, 9e14), [1] * len(DTYPES)
    if not one_peak:
        times = (1 + torch.randperm(len(DTYPES), generator=rng)).tolist()
    return {
        "name": "made up",
        "peak_flops": {dtype: peak * n for dtype, n in zip(DTYPES, times, strict=True)},
        "memory_bandwidth": uniform(rng, 1e11, 9e12),
        "memory_bytes": integer(rng, 10**9, 10**11),
    }


def check_number(got, expected, *, of, hint=None):
    """Check that a number agrees with an exact one up to rounding."""
    want = float(expected)
    expect.number(got, want, of=of, tolerance=TOLERANCE * abs(want), hint=hint)
