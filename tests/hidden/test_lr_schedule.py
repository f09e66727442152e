"""lr_schedule: the learning rate at each iteration.

Accepted on purpose: rates computed in float32, by numpy or torch; a numpy number; any way to write
the cosine. A 0-dimensional tensor counts as its number, and fails only the test about the type.
Not tested: negative iterations, a cosine that ends at or before the end of the warm-up
(CS336's formula divides by 0 there), a largest rate below the smallest one.

The expected values are closed forms: a straight line, the squared cosine of half the angle, and
points at thirds of the cosine's angle, where the cosine is ±1/2. Each test uses rates from 1e-8 to
1e4, because code that rounds or limits a rate is right only for some sizes.
"""

import math

import pytest
import torch

from tests import expect

OF = "lr_cosine_schedule"
SIZES = (1e-8, 1e-4, 1.0, 1e4)


def integers(rng, low, high, count=1):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def rates(rng, size=1.0):
    """A largest and a smallest rate of about this size, whose ratio is not a round number."""
    largest, share = torch.empty(2, dtype=torch.float64).uniform_(0.2, 0.6, generator=rng).tolist()
    return size * largest, size * share * largest


def tolerance(schedule):
    """The error that 16 float32 roundings can cause in numbers up to the largest rate.

    The 16 cover a fraction, its angle, the cosine and five further operations; an error in the
    angle, which is at most π, counts π times.
    """
    return 16 * torch.finfo(torch.float32).eps * max(schedule[:2])


def rate(student, it, schedule):
    """Return the rate at an iteration, and turn a 0-dimensional tensor into its number.

    The type has a test of its own.
    """
    got = student.optimizers.lr_cosine_schedule(it, *schedule)
    if isinstance(got, torch.Tensor) and got.layout == torch.strided and got.device.type == "cpu":
        return got.item() if got.dim() == 0 and got.is_floating_point() else got
    return got


def check(student, it, schedule, expected, *, name, hint):
    """Check the rate at an iteration."""
    expect.number(
        rate(student, it, schedule),
        expected,
        of=OF,
        tolerance=tolerance(schedule),
        name=name,
        hint=hint,
    )


@pytest.mark.core
@pytest.mark.points(5)
def test_warms_up_in_a_straight_line(student, rng):
    """During warm-up the rate is max · it / warmup_iters, which starts at 0 and stays below max."""
    for size in SIZES:
        largest, smallest = rates(rng, size)
        (warmup,) = integers(rng, 20, 60)
        schedule = (largest, smallest, warmup, 3 * warmup)
        for it in (0, 1, warmup - 1, *integers(rng, 2, warmup - 1, 2)):
            hint = "the rate starts at 0 and is proportional to it / warmup_iters"
            check(
                student,
                it,
                schedule,
                largest * it / warmup,
                name="the rate in the warm-up",
                hint=hint,
            )


@pytest.mark.core
@pytest.mark.points(6)
def test_falls_along_half_a_cosine(student, rng):
    """From warmup_iters to cosine_cycle_iters the rate is min + (max − min) · (1 + cos(π x)) / 2.

    x goes from 0 to 1 in that interval.
    """
    hint = "x goes from 0 at warmup_iters to 1 at cosine_cycle_iters"
    for size in SIZES:
        largest, smallest = rates(rng, size)
        warmup, length = integers(rng, 10, 60, 2)
        schedule = (largest, smallest, warmup, warmup + length)
        for it in (warmup + 1, *integers(rng, warmup + 1, warmup + length, 3)):
            part = math.cos(math.pi * (it - warmup) / length / 2) ** 2
            check(
                student,
                it,
                schedule,
                smallest + (largest - smallest) * part,
                name="the rate on the cosine",
                hint=hint,
            )
    sixth = 1 + length
    schedule = (largest, smallest, warmup, warmup + 6 * sixth)
    for steps, part in [(2, 0.75), (3, 0.5), (4, 0.25)]:
        expected = smallest + (largest - smallest) * part
        check(
            student,
            warmup + steps * sixth,
            schedule,
            expected,
            name="the rate on the cosine",
            hint=hint,
        )


@pytest.mark.core
@pytest.mark.points(4)
def test_stays_at_the_smallest_rate(student, rng):
    """From iteration cosine_cycle_iters on, the rate is min."""
    for size in SIZES:
        largest, smallest = rates(rng, size)
        warmup, length = integers(rng, 5, 30, 2)
        end = warmup + length
        for it in (end, end + 1, end + length, end + 2 * length, 10**6):
            hint = "from cosine_cycle_iters on the rate is min"
            check(
                student,
                it,
                (largest, smallest, warmup, end),
                smallest,
                name="the rate after the cosine",
                hint=hint,
            )


def test_peak_at_the_end_of_the_warm_up(student, rng):
    """At iteration warmup_iters the rate is max."""
    for size in SIZES:
        largest, smallest = rates(rng, size)
        warmup, length = integers(rng, 5, 30, 2)
        hint = "the cosine starts at warmup_iters, with x = 0"
        check(
            student,
            warmup,
            (largest, smallest, warmup, warmup + length),
            largest,
            name="the rate at the peak",
            hint=hint,
        )


def test_a_smallest_rate_of_zero(student, rng):
    """min may be 0; the rate then ends at 0."""
    largest, _ = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    end = warmup + length
    warm = rate(student, warmup - 1, (largest, 0.0, warmup, end))
    expect.kind(warm, (float, int), of=OF, name="the rate in the warm-up")
    expect.that(float(warm) > 0, "the rate in the warm-up is not positive", of=OF)
    hint = "a min of 0 needs no special case"
    check(
        student,
        3 * end,
        (largest, 0.0, warmup, end),
        0.0,
        name="the rate after the cosine",
        hint=hint,
    )


@pytest.mark.points(2)
def test_without_a_warm_up(student, rng):
    """With warmup_iters = 0 the cosine starts at iteration 0, so the first rate is not 0."""
    largest, smallest = rates(rng)
    (length,) = integers(rng, 5, 30)
    seen = []
    for it in (0, 1, length // 2, 3 * length):
        # Check only that there is a rate: other tests check its values on a cosine.
        got = rate(student, it, (largest, smallest, 0, length))
        hint = (
            "warmup_iters may be 0: do not divide by it then, and start the cosine at iteration 0"
        )
        expect.kind(got, (float, int), of=OF, name="the rate", hint=hint)
        expect.that(
            0 <= float(got) < 3 * largest, "the rate is not between 0 and max", of=OF, hint=hint
        )
        seen.append(float(got))
    expect.that(seen[0] > 0, "the rate at iteration 0 is 0", of=OF, hint=hint)
    expect.that(max(seen) > min(seen), "the rate is the same at every iteration", of=OF)


def test_the_rate_is_a_number(student, rng):
    """The rate is a Python float, not a tensor, in every part of the schedule."""
    largest, smallest = rates(rng)
    for it in (3, 15, 40):
        seen = []
        for factor in (1.0, 2.0):
            got = student.optimizers.lr_cosine_schedule(
                it, factor * largest, factor * smallest, 10, 30
            )
            hint = "the rate is a Python float; .item() turns a tensor into one"
            expect.kind(got, (float, int), of=OF, name="the rate", hint=hint)
            seen.append(float(got))
        expect.that(seen[0] < seen[1], "doubling max and min does not increase the rate", of=OF)
