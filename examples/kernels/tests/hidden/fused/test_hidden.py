"""fused: the values and the time."""

import pytest

from kit import expect
from tests.probes import fused as probes

ROWS, COLUMNS = 1024, 1024


def check(got, seed, at):
    """Compare rows of an output with the formula in float64; each operator rounds once."""
    x, y = (part[at].double() for part in probes.inputs(seed, ROWS, COLUMNS))
    expected = probes.plain(x, y).float()
    expect.tensor(got, expected, of="compiled", rtol=1e-5, atol=1e-4, hint="the same as `plain`")


@pytest.mark.harm("wrong number")
def test_the_same_values(student, rng):
    """The function computes 30 tanh(x/30) σ(y) + x."""
    seed, at = rng.initial_seed(), [0, 517, ROWS - 1]
    student.run(probes.prepare, seed=seed, rows=ROWS, columns=COLUMNS)
    student.run(probes.call, side="student")
    check(student.run(probes.rows_of_the_output, at=at), seed, at)


@pytest.mark.own_process
@pytest.mark.harm("wrong number")
def test_faster_than_six_operators(student, speed):
    """A call takes at most 0.8 times as long as `plain`."""
    speed.at_most(0.8, probes, check, of="compiled", rows=ROWS, columns=COLUMNS)
