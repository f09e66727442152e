"""lr_schedule: the learning rate at each iteration.

Accepted on purpose: rates computed in float32, by numpy or torch; a numpy number; any way to write
the cosine. A 0-dimensional tensor counts as its number, and fails only the test about the type.

The expected values are closed forms: a straight line, the squared cosine of half the angle, and
points at thirds of the cosine's angle, where the cosine is ±1/2. Each of these tests uses rates
near 1. Rates of other sizes, and schedules without a warm-up, are judged against the student's own
function, so one mistake costs points in few tests.
"""

import math

import pytest
import torch

from kit import expect

OF = "lr_cosine_schedule"


def integers(rng, low, high, count=1):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def rates(rng):
    """A largest and a smallest rate, whose ratio is not a round number."""
    largest, share = torch.empty(2, dtype=torch.float64).uniform_(0.2, 0.6, generator=rng).tolist()
    return largest, share * largest


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
@pytest.mark.points(4)
def test_warms_up_in_a_straight_line(student, rng):
    """During warm-up the rate is max · it / warmup_iters, which starts at 0 and stays below max."""
    hint = "the rate starts at 0 and is proportional to it / warmup_iters"
    largest, smallest = rates(rng)
    # Schedules of equal rates and cosines differ in the warm-up alone.
    for warmup in (1, 2, *integers(rng, 20, 60), *integers(rng, 2000, 3000)):
        schedule = (largest, smallest, warmup, warmup + 50)
        for it in {0, 1, warmup // 2, warmup - 1, *integers(rng, 0, warmup, 2)} - {warmup}:
            expected = schedule[0] * it / warmup
            check(student, it, schedule, expected, name="the rate in the warm-up", hint=hint)


@pytest.mark.core
@pytest.mark.points(5)
def test_falls_along_half_a_cosine(student, rng):
    """From warmup_iters to cosine_cycle_iters the rate is min + (max − min) · (1 + cos(π x)) / 2.

    x goes from 0 to 1 in that interval.
    """
    hint = "x goes from 0 at warmup_iters to 1 at cosine_cycle_iters"
    name = "the rate on the cosine"
    largest, smallest = rates(rng)
    first, length = integers(rng, 10, 60, 2)
    (common,) = integers(rng, first + 4, first + length)
    # The first two cosines end together, one is much shorter than its warm-up, one much longer.
    for warmup, end in [
        (first, first + length),
        (first + 3, first + length),
        (3000, 3040),
        (2, 5000),
    ]:
        length, schedule = end - warmup, (largest, smallest, warmup, end)
        inside = common if warmup < common < end else integers(rng, warmup + 1, end)[0]
        for it in (warmup + 1, inside, end - 1):
            part = math.cos(math.pi * (it - warmup) / length / 2) ** 2
            expected = smallest + (largest - smallest) * part
            check(student, it, schedule, expected, name=name, hint=hint)
    (third,) = integers(rng, 11, 60)
    for steps, length, part in [(2 * third, 6 * third, 0.75), (1, 2, 0.5), (2, 3, 0.25)]:
        schedule = (largest, smallest, first, first + length)
        expected = smallest + (largest - smallest) * part
        check(student, first + steps, schedule, expected, name=name, hint=hint)


# Stays: this is the rule itself; a rate that rises again also fails without a warm-up.
@pytest.mark.core
@pytest.mark.points(4)
def test_stays_at_the_smallest_rate(student, rng):
    """From iteration cosine_cycle_iters on, the rate is min."""
    largest, smallest = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    end = warmup + length
    hint = "from cosine_cycle_iters on the rate is min"
    for it in (end, end + 1, end + length, end + 2 * length, 10**9):
        schedule = (largest, smallest, warmup, end)
        check(student, it, schedule, smallest, name="the rate after the cosine", hint=hint)


def test_peak_at_the_end_of_the_warm_up(student, rng):
    """At iteration warmup_iters the rate is max."""
    hint = "the cosine starts at warmup_iters, with x = 0"
    for warmup, length in [(1, 1), *zip(*[iter(integers(rng, 5, 30, 4))] * 2, strict=True)]:
        largest, smallest = rates(rng)
        schedule = (largest, smallest, warmup, warmup + length)
        check(student, warmup, schedule, largest, name="the rate at the peak", hint=hint)


def test_without_a_cosine(student, rng):
    """If the cosine ends where the warm-up ends, the rate is min from there on."""
    largest, smallest = rates(rng)
    (end,) = integers(rng, 5, 30)
    hint = "where cosine_cycle_iters is warmup_iters, no iteration is on the cosine"
    name = "the rate after the warm-up"
    warm = rate(student, end - 1, (largest, smallest, end, end))
    expect.kind(warm, (float, int), of=OF, name="the rate in the warm-up", hint=hint)
    expect.that(float(warm) != smallest, "the rate in the warm-up is min", of=OF, hint=hint)
    own = rate(student, end - 1, (largest, smallest, end, 3 * end))
    expect.kind(own, (float, int), of=OF, name="the rate in the warm-up")
    schedule = (largest, smallest, end, end)
    check(student, end - 1, schedule, float(own), name="the rate in the warm-up", hint=hint)
    for it, iterations in [(end, end), (1, 1), (0, 0)]:
        schedule = (largest, smallest, iterations, iterations)
        check(student, it, schedule, smallest, name=name, hint=hint)


def test_rates_of_any_size(student, rng):
    """max and min may be of any size, ints, 0 or equal; each rate scales with both of them.

    Numbers of iterations may be of any size as well.
    """
    largest, smallest = rates(rng)
    iterations = warmup, end = 10, 10 + integers(rng, 5, 30)[0]
    name, hint = "the rate with other max and min", "do not round or limit a rate"
    for it in (1, warmup, (warmup + end) // 2, end + 5):
        plain = rate(student, it, (largest, smallest, *iterations))
        expect.kind(plain, (float, int), of=OF, name="the rate", hint=hint)
        for size in (1e-8, 1e-4, 1e4, 1e12):
            schedule = (size * largest, size * smallest, *iterations)
            check(student, it, schedule, size * float(plain), name=name, hint=hint)
        for high, low in [(3, 2), (1, 0)]:
            plain = rate(student, it, (float(high), float(low), *iterations))
            expect.kind(plain, (float, int), of=OF, name="the rate", hint=hint)
            check(student, it, (high, low, *iterations), float(plain), name=name, hint=hint)
        check(student, it, (0, 0, *iterations), 0.0, name=name, hint=hint)
    own = rate(student, 0, (1.0, 0.5, *iterations))
    expect.kind(own, (float, int), of=OF, name="the rate", hint=hint)
    check(student, 0, (1, 1, *iterations), float(own), name=name, hint=hint)
    check(student, 0, (1, 0.5, 1, 1), float(own), name=name, hint=hint)
    check(student, end, (1, 1, 0, end), 1.0, name=name, hint=hint)
    own, later = (
        rate(student, n + warmup + 3, (largest, smallest, n + warmup, n + end)) for n in (0, 20)
    )
    for number in (own, later):
        expect.kind(number, (float, int), of=OF, name="the rate", hint=hint)
    if abs(own - later) > tolerance((largest, smallest)):
        return  # another test judges what the rate depends on
    name, hint, n = "the rate 10**12 iterations later", "are iterations kept in a float32?", 10**12
    schedule = (largest, smallest, n + warmup, n + end)
    check(student, n + warmup + 3, schedule, float(own), name=name, hint=hint)


def test_a_smallest_rate_of_zero(student, rng):
    """min may be 0; the rate then ends at 0. Each call has the rate of its own arguments."""
    largest, smallest = rates(rng)
    warmup, length = integers(rng, 5, 30, 2)
    schedule = (largest, 0.0, warmup, warmup + length)
    before = rate(student, warmup + 1, schedule)
    expect.kind(before, (float, int), of=OF, name="the rate on the cosine")
    expect.that(float(before) > 0, "the rate on the cosine is not positive", of=OF)
    hint = "a min of 0 needs no special case"
    check(student, warmup + length, schedule, 0.0, name="the rate after the cosine", hint=hint)
    name, hint = "the rate after a call with one other argument", "does the code keep rates?"
    # Other tests judge the cosine: compare with the student's own, 50 iterations later.
    later = (largest, smallest, warmup + 50, warmup + 50 + length)
    own = rate(student, warmup + 51, later)
    expect.kind(own, (float, int), of=OF, name="the rate on the cosine")
    for of_this_call, expected in [
        ((largest, smallest, warmup, warmup + length), float(own)),
        ((0.0, 0.0, warmup, warmup + length), 0.0),
        ((largest, 0.0, warmup, warmup + 1), 0.0),
    ]:
        check(student, warmup + 1, of_this_call, expected, name=name, hint=hint)


@pytest.mark.points(2)
def test_without_a_warm_up(student, rng):
    """With warmup_iters = 0 the cosine starts at iteration 0, so the first rate is max."""
    largest, smallest = rates(rng)
    (length,) = integers(rng, 5, 30)
    hint = "warmup_iters may be 0: do not divide by it then, and start the cosine at iteration 0"
    name = "the rate without a warm-up"
    for high, low, end in [(largest, smallest, 1), (largest, smallest, length), (1, 0, 3)]:
        schedule = (high, low, 0, end)
        if low:
            check(student, end, schedule, low, name=name, hint=hint)
            check(student, end + 3, schedule, low, name=name, hint=hint)
        for it in sorted({0, 1, end // 2, end - 1} & set(range(end))):
            part = math.cos(math.pi * it / end / 2) ** 2
            try:
                expected = low + (high - low) * part
                check(student, it, schedule, expected, name=name, hint=hint)
            except expect.Mismatch:
                # Other tests judge the cosine: compare with the student's own, 7 iterations later.
                own = rate(student, it + 7, (high, low, 7, end + 7))
                expect.kind(own, (float, int), of=OF, name="the rate", hint=hint)
                check(student, it, schedule, float(own), name=name, hint=hint)


def test_the_rate_is_a_number(student, rng):
    """The rate is a Python float, not a tensor, in every part of the schedule."""
    largest, smallest = rates(rng)
    name, hint = "the rate", "the rate is a Python float; .item() turns a tensor into one"
    for it, expected in [(5, largest / 2), (30, smallest)]:
        check(student, it, (largest, smallest, 10, 30), expected, name=name, hint=hint)
    for it, warmup in [(0, 10), (3, 10), (10, 10), (15, 0), (30, 10)]:
        got = student.optimizers.lr_cosine_schedule(it, largest, smallest, warmup, 30)
        expect.kind(got, (float, int), of=OF, name=name, hint=hint)
