"""The rule of a test of speed, and how often it is wrong on simulated machines."""

import importlib.util
import itertools
import math
import random
import sys
from functools import cache

import pytest

from kit import ratio


def test_code_at_the_limit_is_called_too_slow_in_less_than_one_percent():
    """The exact error of all looks together, whatever the noise is.

    At the limit each ratio is above it with a chance of one half. A look calls the code too slow if
    fewer than `rank` ratios are at or below the limit.
    """
    below = sum(
        math.comb(groups, k) / 2**groups for groups, rank in ratio.LOOKS for k in range(rank)
    )
    assert below < 0.01
    assert below == pytest.approx(0.0095, abs=1e-4)


@pytest.mark.parametrize(
    ("ratios", "says", "pairs"),
    [
        ([1.0] * 8, "fast enough", 16),
        ([1.5] * 8, "fast enough", 16),  # the limit itself is allowed
        ([1.51] * 8, "too slow", 16),
        ([1.0] * 7 + [9.0] + [1.0] * 8, "fast enough", 32),
        ([9.0] * 7 + [1.0] + [9.0] * 8, "too slow", 32),
        ([1.0, 2.0] * 16, "in doubt", 64),
        ([9.0] * 7 + [1.0], "in doubt", 16),  # no time for more
        ([9.0] * 8 + [1.0] * 8, "too slow", 16),  # what follows is not measured
        ([1.0] * 8 + [9.0] * 8, "fast enough", 16),
        (([9.0] * 3 + [1.0]) * 8, "too slow", 64),
        (([9.0] * 2 + [1.0]) * 11, "in doubt", 64),
    ],
)
def test_a_verdict_outside_of_the_noise(ratios, says, pairs):
    """The ratios decide once the interval is on one side of the limit."""
    found = ratio.judged(iter(ratios), 1.5)
    assert (says, pairs) == (found.says, found.pairs)


def test_no_more_is_measured_than_the_verdict_needs():
    """The groups are measured one by one, and none after the verdict."""
    asked = []

    def ratios():
        for number in itertools.count():
            asked.append(number)
            yield 1.0

    ratio.judged(ratios(), 1.5)
    assert asked == list(range(8))


def test_what_was_measured_is_said():
    """A report has the median, the interval, the pairs, the limit, and the doubt."""
    found = ratio.judged([1.3, 1.31, 1.28, 1.32, 1.37, 1.33, 1.3, 1.35], 1.5)
    said = "1.31 times the reference (1.28 to 1.37 in 16 pairs); required at most 1.5"
    assert said == str(found)
    doubt = str(ratio.judged([1.0, 2.0] * 16, 1.5))
    assert doubt.endswith("required at most 1.5; too noisy to say, so it counts as fast enough")


@cache
def simulation():
    """The module benchmarks/speed_rule.py, which belongs to no package."""
    from tests.grader.conftest import ROOT

    spec = importlib.util.spec_from_file_location("speed_rule", ROOT / "benchmarks/speed_rule.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["speed_rule"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quiet", "drift", "throttling", "neighbours", "all of it"])
def test_wrong_verdicts_are_rare_on_a_machine(name):
    """On each simulated machine, few fast submissions fail and few slow ones pass.

    The traces are the same in every run. `python benchmarks/speed_rule.py` has many more of them.
    """
    rule = simulation()
    machine, traces = rule.machines()[name], 40

    def share(relative, verdicts):
        found = [
            rule.measured(machine, relative * rule.LIMIT, 1000 * seed)[0] for seed in range(traces)
        ]
        return sum(says in verdicts for says in found) / traces

    assert 0 == share(0.9, {"too slow"})
    assert 2 / traces >= share(1.0, {"too slow"})
    assert 0 == share(2.0, {"fast enough", "in doubt"})
    assert 0 == share(1.5, {"fast enough"})


@pytest.mark.slow
def test_slow_calls_now_and_then_bring_no_doubt():
    """Code whose noise would make an interval of means too wide is still called too slow."""
    chance = random.Random(0)
    for _ in range(300):
        ratios = [3.0 * (100 if chance.random() < 0.3 else 1) for _ in range(32)]
        assert "too slow" == ratio.judged(ratios, 1.5).says
