"""The fixtures of every test, and `speed`, which gives points for speed.

The clock is in the process of the test, outside of the box. Both functions run in the student's
process, in groups of four blocks: reference, student, student, reference, or the other way round. A
draw decides for each group, so code exactly at the limit has a ratio above it as often as below it,
whatever else the machine does. README.md has the rule for the verdict.
"""

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from kit import expect

pytest_plugins = ["kit.fixtures"]

# After how many groups the ratios are looked at, and which of the ordered ratios, counted from
# either end, then bounds the interval.
LOOKS = ((8, 1), (16, 3), (32, 9))
CALLS = 3  # of a block, of which the median counts
CHECKED = 2  # rows of an output that are compared
ABBA = ("reference", "student", "student", "reference")
BAAB = ("student", "reference", "reference", "student")


class Ratio(NamedTuple):
    """What was measured, and what follows from it."""

    says: str
    limit: float
    middle: float
    least: float
    most: float
    groups: int

    def __str__(self) -> str:
        doubt = "; too noisy to say, so it counts as fast enough" if self.says == "in doubt" else ""
        return (
            f"{self.middle:.2f} times the reference ({self.least:.2f} to {self.most:.2f} in "
            f"{2 * self.groups} pairs); required at most {self.limit:g}{doubt}"
        )


def judged(ratios: Iterable[float], limit: float) -> Ratio:
    """Measure until the interval is on one side of the limit, or until the last look."""
    source, found = iter(ratios), []
    for groups, rank in LOOKS:
        found += itertools.islice(source, groups - len(found))
        ordered = sorted(found)
        least, most = ordered[rank - 1], ordered[-rank]
        says = "fast enough" if most <= limit else "too slow" if least > limit else "in doubt"
        if says != "in doubt":
            break
    return Ratio(says, limit, statistics.median(found), least, most, groups)


class Speed:
    """Compares the time of a student's function with that of a reference."""

    def __init__(self, student: Any, record: Callable[[str], None]) -> None:
        self._student, self._record = student, record
        self._chance = random.SystemRandom()

    def at_most(
        self,
        limit: float,
        probes: Any,
        check: Callable[..., object],
        *,
        of: str,
        rows: int,
        **sizes: int,
    ) -> None:
        """Check that the student's function takes at most `limit` times the reference's time.

        Args:
            limit: The largest ratio.
            probes: A module with the probes `prepare`, `call` and `rows_of_the_output`.
            check: `check(got, seed, at)` compares rows of an output with mathematics.
            of: The name of the student's function.
            rows: How many rows an output has.
            sizes: Further arguments of `prepare`.
        """
        self._probes, self._check, self._rows, self._sizes = probes, check, rows, sizes
        for side in ABBA:  # the first call compiles, the second is as fast as all later ones
            self._seconds(side)
        found = judged(self._ratios(), limit)
        self._record(str(found))
        if found.says == "too slow":
            raise expect.Mismatch(of, "too slow", facts=[("measured", str(found))])

    def _ratios(self) -> Iterator[float]:
        """The ratio of each group: the geometric mean of its two pairs."""
        while True:
            order = self._chance.choice([ABBA, BAAB])
            times = {"student": 1.0, "reference": 1.0}
            for side in order:
                times[side] *= statistics.median(self._seconds(side) for _ in range(CALLS))
            yield math.sqrt(times["student"] / times["reference"])

    def _seconds(self, side: str) -> float:
        """The time of one call with new arguments; the student's output is checked after it."""
        seed = self._chance.getrandbits(62)
        self._student.run(self._probes.prepare, seed=seed, **self._sizes)
        started = time.perf_counter()
        self._student.run(self._probes.call, side=side)
        seconds = time.perf_counter() - started
        if side == "student":
            at = self._chance.sample(range(self._rows), CHECKED)
            self._check(self._student.run(self._probes.rows_of_the_output, at=at), seed, at)
        return seconds


@pytest.fixture
def speed(request: pytest.FixtureRequest, student: Any) -> Speed:
    """Compares times; see `Speed.at_most`. A report shows what a passed test has measured."""
    return Speed(student, lambda said: request.node.user_properties.append(("measured", said)))
