"""fused: the values and the time."""

import pytest

from kit import expect
from tests.probes import fused as probes

SIZES = {"pairs": 8, "height": 512}


def check(got, seed, at, **sizes):
    """Compare rows of an output with the formula in float64; each operator rounds once."""
    x, y = probes.inputs(seed, **(sizes or SIZES)).flatten(1, 2)[:, at].double()
    expected = probes.plain(x, y).float()
    expect.tensor(got, expected, of="compiled", rtol=1e-5, atol=1e-5, hint="the same as `plain`")


@pytest.mark.harm("wrong number")
def test_the_same_values(student, rng):
    """The function computes 30 tanh(x/30) σ(y) + x."""
    seed, sizes = rng.initial_seed(), {"pairs": 2, "height": 3}
    check(student.run(probes.outputs, seed=seed, **sizes), seed, slice(None), **sizes)


@pytest.mark.own_process
@pytest.mark.harm("wrong number")
def test_faster_than_six_operators(student, speed):
    """A call takes at most 0.8 times as long as `plain`."""
    speed.at_most(0.8, probes, check, of="compiled", rows=8 * 512, **SIZES)
