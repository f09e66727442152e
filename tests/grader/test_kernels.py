"""The course examples/kernels: C++ in the box, and points for speed."""

import importlib.util
import math
import random

import pytest

from grader.tools import gxx
from kit import expect
from tests.grader.conftest import ROOT

COURSE = ROOT / "examples" / "kernels"
NEEDS_COMPILER = pytest.mark.skipif(gxx.find() is None, reason="there is no C++ compiler")


def _conftest():
    spec = importlib.util.spec_from_file_location("kernels_conftest", COURSE / "tests/conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rule = _conftest()


def test_code_at_the_limit_is_called_too_slow_in_less_than_one_percent():
    """The exact error of all looks together, whatever the noise is.

    At the limit each ratio is above it with a chance of one half. A look calls the code too slow if
    fewer than `rank` ratios are at or below the limit.
    """
    below = sum(math.comb(n, k) / 2**n for n, rank in rule.LOOKS for k in range(rank))
    assert below == pytest.approx(0.0095, abs=1e-4)


@pytest.mark.parametrize(
    ("ratios", "says", "groups"),
    [
        ([1.5] * 8, "fast enough", 8),  # the limit itself is allowed
        ([1.51] * 8, "too slow", 8),
        ([1.0] * 7 + [9.0] + [1.0] * 8, "fast enough", 16),
        ([9.0] * 7 + [1.0] + [9.0] * 8, "too slow", 16),
        (([9.0] * 3 + [1.0]) * 8, "too slow", 32),
        ([1.0, 2.0] * 16, "in doubt", 32),
    ],
)
def test_a_verdict_outside_of_the_noise(ratios, says, groups):
    """The ratios decide once the interval is on one side of the limit; no more are measured."""
    source = iter(ratios)
    found = rule.judged(source, 1.5)
    assert (says, groups) == (found.says, found.groups)
    assert ratios[groups:] == list(source)


class Machine:
    """A student and a clock: each call takes the time of its side, and all become slower."""

    def __init__(self, seconds):
        self.seconds, self.now, self.calls = seconds, 0.0, []

    def run(self, probe, **inputs):
        answer = probe(**inputs)
        if probe is Probes.call:
            self.calls.append(inputs["side"])
            self.now += self.seconds[inputs["side"]] * (1 + len(self.calls) / 100)
        return answer


class Probes:
    """Probes that only say what they were asked for."""

    prepare = staticmethod(lambda seed: None)
    call = staticmethod(lambda side: None)
    rows_of_the_output = staticmethod(lambda at: at)


@pytest.fixture
def measured(monkeypatch):
    """Measure on a simulated machine; return what is recorded, and the machine."""

    def run(check=lambda *_: None, **seconds):
        machine, said = Machine(seconds), []
        monkeypatch.setattr(rule.time, "perf_counter", lambda: machine.now)
        speed = rule.Speed(machine, said.append)
        speed._chance = random.Random(0)
        try:
            speed.at_most(1.5, Probes, check, of="f", rows=9)
        finally:
            machine.said = said
        return machine

    return run


def test_a_ratio_is_that_of_the_two_sides_although_the_machine_becomes_slower(measured):
    """The blocks are in turns, the first calls do not count, and the order is drawn."""
    machine = measured(student=1.0, reference=1.0)
    assert machine.said[0].startswith("1.00 times the reference (")
    assert machine.said[0].endswith("in 16 pairs); required at most 1.5")
    blocks = ["".join(side[0] for side in machine.calls[4:][n : n + 12]) for n in range(0, 96, 12)]
    assert {"rrrssssssrrr", "sssrrrrrrsss"} == set(blocks)
    assert len(machine.calls) == 4 + 8 * 12


def test_slow_code_fails_with_the_ratio(measured):
    with pytest.raises(expect.Mismatch, match="too slow") as caught:
        measured(student=2.0, reference=1.0)
    ((label, said),) = caught.value.facts
    assert label == "measured"
    assert said.startswith("2.00 times the reference")


def test_each_output_is_checked(measured):
    checked = []

    def check(got, seed, at):
        assert got == at
        checked.append(seed)
        if len(checked) == 5:
            raise expect.Mismatch("f", "wrong")

    with pytest.raises(expect.Mismatch, match="wrong"):
        measured(check, student=1.0, reference=1.0)
    assert len(set(checked)) == 5


@pytest.mark.proof
@NEEDS_COMPILER
def test_it_is_proved(grader):
    done = grader("validate", "--course", COURSE, "--light")
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "the zip for Gradescope: as required" in done.stdout
