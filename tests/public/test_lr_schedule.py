"""lr_schedule: warm-up, half a cosine, and then flat. Handout §8.4."""

import pytest

from kit import expect

# For each iteration of the example, the rates of known mistakes.
HINTS = {
    0: {
        1.0: "the rate rises from 0 to max during the first w iterations",
        0.1: "the rate of iteration 0 is 0: the warm-up begins neither at min nor one early",
    },
    5: {5 / 9: "divide by w", 0.0: "// rounds down to a whole number"},
    10: {
        0.1: "the cosine falls from max to min",
        0.775: "x counts from the end of the warm-up",
        1.1: "the cosine's height is max - min",
        1.2: "the cosine's height is max - min",
        1.9: "half of the cosine's height times 1 + cos",
    },
    15: {
        0.853553: "the cosine falls to min, not to 0",
        0.854777: "x is divided by c - w",
        0.939711: "the cosine ends at iteration c, so x is divided by c - w",
        0.931492: "the angle goes up to π",
        0.775: "this is a straight line, not a cosine",
        0.55: "half a period from w to c: the angle is π · (it - w) / (c - w)",
    },
    30: {0.0: "after c the rate is min"},
    1000: dict.fromkeys((0.0, 0.55, 1.0), "after c the rate stays at min"),
}


RATES = {0: 0.0, 5: 0.5, 10: 1.0, 15: 0.868198, 20: 0.55, 30: 0.1}


@pytest.mark.parametrize(("it", "expected"), [*RATES.items(), (1000, 0.1)])
def test_schedule_of_the_example(student, it, expected):
    """The rate rises to 1 at iteration 10, is halfway down at 20, and stays at 0.1 from 30 on.

    At iteration 15, cos(π/4) = 0.7071 gives 0.8682.
    """
    got = student.optimizers.lr_cosine_schedule(it, 1.0, 0.1, 10, 30)
    inputs = f"it {it}, from 1 down to 0.1, warm-up until 10, cosine until 30"
    hints, of = HINTS.get(it, {}), "lr_cosine_schedule"
    expect.number(got, expected, of=of, tolerance=1e-6, inputs=inputs, hints=hints)


def test_without_a_warm_up(student):
    """With warmup_iters 0 the first rate is the largest.

    The cosine falls from there; halfway, the rate is 0.55.
    """
    for it, expected in [(0, 1.0), (10, 0.55), (20, 0.1)]:
        inputs = f"it {it}, from 1 down to 0.1, no warm-up, cosine until 20"
        got = student.optimizers.lr_cosine_schedule(it, 1.0, 0.1, 0, 20)
        hints = {0.0: "without a warm-up the first rate is max"} if it == 0 else {}
        of = "lr_cosine_schedule"
        expect.number(got, expected, of=of, tolerance=1e-6, inputs=inputs, hints=hints)


def test_real_rates(student):
    """Halfway in the warm-up to 6e-4 the rate is 3e-4. The cosine from there to 0 ends at 0."""
    for it, expected in [(5, 3e-4), (10, 6e-4), (20, 3e-4), (30, 0.0)]:
        inputs = f"it {it}, from 6e-4 down to 0, warm-up until 10, cosine until 30"
        got = student.optimizers.lr_cosine_schedule(it, 6e-4, 0.0, 10, 30)
        expect.number(got, expected, of="lr_cosine_schedule", tolerance=2e-9, inputs=inputs)
