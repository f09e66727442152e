"""lr_schedule: the learning rate at each iteration.

Accepted on purpose: rates computed in float32, by numpy or torch; a numpy number; any way to write
the cosine. A 0-dimensional tensor counts as its number, and fails only the test about the type.

The expected values are closed forms: a straight line, and the squared cosine of half the angle.
"""

import math

import pytest
import torch

from kit import expect
from tests.hidden import integers

OF = "lr_cosine_schedule"


def rates(rng):
    """A largest rate between 2e-4 and 6e-4, and a smallest one, some tenths of it."""
    largest, share = torch.empty(2, dtype=torch.float64).uniform_(0.2, 0.6, generator=rng).tolist()
    return 1e-3 * largest, 1e-3 * share * largest


def check(student, it, schedule, expected, *, name, hint):
    """Check the rate at an iteration. The type has a test of its own.

    The tolerance is the error that 16 float32 roundings can cause in numbers up to the largest
    rate: those of a fraction, its angle, the cosine and five further operations; an error in the
    angle, which is at most π, counts π times.
    """
    got = student.optimizers.lr_cosine_schedule(it, *schedule)
    if isinstance(got, torch.Tensor) and got.dim() == 0:
        got = got.item()
    tolerance = 16 * torch.finfo(torch.float32).eps * schedule[0]
    expect.number(got, expected, of=OF, tolerance=tolerance, name=name, hint=hint)


@pytest.mark.harm("trains worse")
def test_warms_up_in_a_straight_line(student, rng):
    """During warm-up the rate is max · it / warmup_iters, which starts at 0 and stays below max."""
    hint = "the rate starts at 0 and is proportional to it / warmup_iters"
    largest, smallest = rates(rng)
    for warmup in (*integers(rng, 20, 60), 1, 2, *integers(rng, 2000, 3000)):
        schedule = (largest, smallest, warmup, warmup + 50)
        for it in {0, 1, warmup // 2, warmup - 1} - {warmup}:
            expected = largest * it / warmup
            check(student, it, schedule, expected, name="the rate in the warm-up", hint=hint)


@pytest.mark.harm("trains worse")
def test_falls_along_half_a_cosine(student, rng):
    """From warmup_iters to cosine_cycle_iters the rate is min + (max − min) · (1 + cos(π x)) / 2.

    x goes from 0 to 1 in that interval, so the rate begins at max.
    """
    hint = "x goes from 0 at warmup_iters to 1 at cosine_cycle_iters"
    first, length = integers(rng, 10, 60, 2)
    for warmup, end in [(first, first + length), (3000, 3040), (2, 5000)]:
        largest, smallest = rates(rng)
        for it in (warmup, warmup + 1, *integers(rng, warmup, end), end - 1):
            part = math.cos(math.pi * (it - warmup) / (end - warmup) / 2) ** 2
            expected = smallest + (largest - smallest) * part
            schedule = (largest, smallest, warmup, end)
            check(student, it, schedule, expected, name="the rate on the cosine", hint=hint)


@pytest.mark.harm("trains worse")
def test_stays_at_the_smallest_rate(student, rng):
    """From iteration cosine_cycle_iters on, the rate is min, which may be 0."""
    largest, smallest = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    end = warmup + length
    hint = "from cosine_cycle_iters on the rate is min"
    for low in (smallest, 0.0):
        for it in (end, end + 1, end + length, end + 2 * length):
            schedule = (largest, low, warmup, end)
            check(student, it, schedule, low, name="the rate after the cosine", hint=hint)


@pytest.mark.harm("crash")
def test_without_a_warm_up(student, rng):
    """With warmup_iters = 0 the cosine starts at iteration 0, so the first rate is max."""
    largest, smallest = rates(rng)
    (end,) = integers(rng, 5, 30)
    hint = "warmup_iters may be 0: do not divide by it then, and start the cosine at iteration 0"
    for it, expected in [(0, largest), (end, smallest)]:
        schedule = (largest, smallest, 0, end)
        check(student, it, schedule, expected, name="the rate without a warm-up", hint=hint)


@pytest.mark.harm("rare")
def test_the_rate_is_a_number(student, rng):
    """The rate is a Python float, not a tensor, in every part of the schedule."""
    largest, smallest = rates(rng)
    hint = "the rate is a Python float; .item() turns a tensor into one"
    schedule = (largest, smallest, 10, 30)
    for it in (5, 20, 30):
        got = student.optimizers.lr_cosine_schedule(it, *schedule)
        expect.kind(got, (float, int), of=OF, name="the rate", hint=hint)
    check(student, 30, schedule, smallest, name="the rate", hint=hint)
