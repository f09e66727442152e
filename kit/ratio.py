"""The rule of a test of speed: whether a ratio of two times is at most a limit.

The unit is a group of four blocks in the order ABBA: reference, student, student, reference, or the
other way round, which is drawn at random for each group. It gives one ratio, the geometric mean of
two pairs. So a machine that becomes steadily slower favours neither side. And whatever else the
machine does, code that is exactly at the limit has a ratio above the limit as often as below it,
independently in each group, because a draw decides which of the two it is.

This is all that the interval for the median assumes; it goes from one ordered ratio to another, as
in the sign test. A t interval would assume normal noise, and code could widen it by being very slow
now and then, until nobody can say that it is too slow. This interval depends on how many groups are
slow and not on how slow they are, so code that is to look fast in it has to be fast.

The ratios are looked at up to three times. By `LOOKS`, code that is exactly at the limit is called
too slow in less than 1 % of all measurements, over all looks together. What cannot be said after
the last look counts as fast enough.
"""

import itertools
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

# After how many groups the ratios are looked at, and which of the ordered ratios, counted from
# either end, then bounds the interval. A test computes the errors of these numbers.
LOOKS = ((8, 1), (16, 3), (32, 9))
PAIRS = 2  # in a group

Says = Literal["fast enough", "too slow", "in doubt"]


@dataclass(frozen=True)
class Ratio:
    """What was measured, and what follows from it.

    Attributes:
        says: The verdict.
        limit: The largest ratio that is allowed.
        middle: The median of the ratios.
        least: The lower end of the interval.
        most: Its upper end.
        pairs: The number of pairs of blocks.
    """

    says: Says
    limit: float
    middle: float
    least: float
    most: float
    pairs: int

    def __str__(self) -> str:
        doubt = "; too noisy to say, so it counts as fast enough" if self.says == "in doubt" else ""
        return (
            f"{self.middle:.2f} times the reference ({self.least:.2f} to {self.most:.2f} in "
            f"{self.pairs} pairs); required at most {self.limit:g}{doubt}"
        )


def judged(ratios: Iterable[float], limit: float) -> Ratio:
    """Measure until the interval is on one side of the limit, or until the last look.

    Args:
        ratios: Measures another group whenever it is asked for the next ratio. It may end after the
            first look, if there is no time for more.
        limit: The largest ratio that is allowed.
    """
    source, found = iter(ratios), list[float]()
    for groups, rank in LOOKS:
        found += itertools.islice(source, groups - len(found))
        if len(found) < groups:
            break
        last = _at(sorted(found), rank, limit)
        if last.says != "in doubt":
            break
    return last


def _at(ordered: list[float], rank: int, limit: float) -> Ratio:
    """One look at ordered ratios."""
    least, most = ordered[rank - 1], ordered[-rank]
    says: Says = "in doubt"
    if most <= limit:
        says = "fast enough"
    elif least > limit:
        says = "too slow"
    middle = statistics.median(ordered)
    return Ratio(says, limit, middle, least, most, PAIRS * len(ordered))
