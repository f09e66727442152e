"""lr_schedule: the learning rate of an iteration.

Accepted on purpose: rates computed in float32, by numpy or torch, as long as a float comes back; any way to write the
cosine; the largest or the smallest rate at the one iteration where warm-up and cosine end together (CS336's formula
divides by 0 there); a largest rate below the smallest one (not asked).

The oracles are closed forms: a straight line, cos² of half the angle, and thirds of the way, where the cosine is 1/2.
"""

import math

import pytest
import torch

from tests import expect

OF = "lr_cosine_schedule"


def integers(rng, low, high, count=1):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def rates(rng):
    """A largest and a smallest rate, neither of them 0 or 1, the smallest no round part of the largest."""
    largest, share = torch.empty(2, dtype=torch.float64).uniform_(0.2, 0.6, generator=rng).tolist()
    return largest, share * largest


def tolerance(schedule):
    """16 roundings of float32 of numbers that are not above the largest rate.

    A fraction, its angle, the cosine and five operations after it; an error of the angle, at most π, counts π times.
    """
    return 16 * torch.finfo(torch.float32).eps * max(schedule[:2])


def check(student, it, schedule, expected, *, hint):
    """The rate at an iteration."""
    got = student.optimizers.lr_cosine_schedule(it, *schedule)
    expect.number(got, expected, of=OF, tolerance=tolerance(schedule), hint=hint)


@pytest.mark.points(2)
def test_warms_up_in_a_straight_line(student, rng):
    """Before warmup_iters the rate is max · it / warmup_iters: 0 at iteration 0, and not yet max at the last one."""
    largest, smallest = rates(rng)
    (warmup,) = integers(rng, 20, 60)
    schedule = (largest, smallest, warmup, 3 * warmup)
    for it in (0, 1, warmup - 1, *integers(rng, 2, warmup - 1, 3)):
        check(student, it, schedule, largest * it / warmup, hint="from 0, and by it / warmup_iters")


@pytest.mark.points(3)
def test_falls_along_half_a_cosine(student, rng):
    """Between warmup_iters and cosine_cycle_iters the rate is min + (max − min) · (1 + cos(π x)) / 2."""
    hint = "x goes from 0 at warmup_iters to 1 at cosine_cycle_iters"
    for _ in range(2):
        largest, smallest = rates(rng)
        warmup, length = integers(rng, 10, 60, 2)
        schedule = (largest, smallest, warmup, warmup + length)
        for it in (warmup + 1, *integers(rng, warmup + 1, warmup + length, 3)):
            x = (it - warmup) / length
            check(student, it, schedule, smallest + (largest - smallest) * math.cos(math.pi * x / 2) ** 2, hint=hint)
    sixth = 1 + length
    schedule = (largest, smallest, warmup, warmup + 6 * sixth)
    for steps, left in [(2, 0.75), (3, 0.5), (4, 0.25)]:
        check(student, warmup + steps * sixth, schedule, smallest + (largest - smallest) * left, hint=hint)


def test_peak_at_the_end_of_the_warm_up(student, rng):
    """At iteration warmup_iters the rate is max."""
    largest, smallest = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    schedule = (largest, smallest, warmup, warmup + length)
    check(student, warmup, schedule, largest, hint="the cosine starts at warmup_iters, with x = 0")


@pytest.mark.points(2)
def test_stays_at_the_smallest_rate(student, rng):
    """At cosine_cycle_iters the rate is min, and it stays there for ever."""
    largest, smallest = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    end = warmup + length
    for it in (end, end + 1, end + length, end + 2 * length, 10**9):
        check(student, it, (largest, smallest, warmup, end), smallest, hint="after the cosine nothing changes any more")


def test_a_smallest_rate_of_zero(student, rng):
    """min may be 0, and the rate ends there."""
    largest, _ = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    for it in (warmup + length, 3 * (warmup + length)):
        check(student, it, (largest, 0.0, warmup, warmup + length), 0.0, hint="is a rate of 0 taken for a missing one?")


def test_without_a_warm_up(student, rng):
    """With warmup_iters 0 the cosine starts at iteration 0, and is what it is after a warm-up."""
    largest, smallest = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    for it in (0, 1, length // 2, length):
        after = student.optimizers.lr_cosine_schedule(warmup + it, largest, smallest, warmup, warmup + length)
        expect.that(type(after) is float, "no float came back", of=OF)
        check(student, it, (largest, smallest, 0, length), after, hint="is anything divided by warmup_iters?")


def test_without_a_cosine(student, rng):
    """Where cosine_cycle_iters is warmup_iters, the warm-up is followed at once by what comes after the cosine."""
    largest, smallest = rates(rng)
    (warmup,) = integers(rng, 5, 30)
    schedule = (largest, smallest, warmup, warmup)
    hint = "how long is the cosine here?"
    got = student.optimizers.lr_cosine_schedule(warmup, *schedule)
    one_of_them = type(got) is float and min(abs(got - largest), abs(got - smallest)) <= tolerance(schedule)
    reason = "where warm-up and cosine end together the rate is neither the largest nor the smallest"
    expect.that(one_of_them, reason, of=OF, hint=hint)
    long_after = student.optimizers.lr_cosine_schedule(100, largest, smallest, 5, 30)
    expect.that(type(long_after) is float, "no float came back", of=OF)
    check(student, warmup + 1, schedule, long_after, hint=hint)
    check(student, 1, (largest, smallest, 0, 0), long_after, hint=hint)


def test_refuses_negative_iterations(student):
    """A negative it or warmup_iters is a ValueError."""
    schedule = student.optimizers.lr_cosine_schedule
    schedule(0, 1.0, 0.1, 10, 30)
    for it, warmup in [(-1, 10), (-7, 0)]:
        with expect.raises(ValueError, of=OF, when="it is negative"):
            schedule(it, 1.0, 0.1, warmup, 30)
    for it in (0, 5):
        with expect.raises(ValueError, of=OF, when="warmup_iters is negative", naming="warmup_iters"):
            schedule(it, 1.0, 0.1, -1, 30)


def test_refuses_a_cycle_that_ends_before_the_warm_up(student):
    """A cosine_cycle_iters below warmup_iters is a ValueError that names it, at every iteration."""
    schedule = student.optimizers.lr_cosine_schedule
    schedule(3, 1.0, 0.1, 10, 30)
    for it, warmup, end in [(0, 10, 9), (3, 10, 0), (20, 10, 9), (10, 10, 5)]:
        with expect.raises(ValueError, of=OF, when="cosine_cycle_iters is below warmup_iters", naming="cosine_cycle_iters"):
            schedule(it, 1.0, 0.1, warmup, end)
