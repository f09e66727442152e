"""The rule of a test for speed: whether a ratio of two times is at most a limit.

Each pair of blocks gives one ratio. The interval for their median goes from one ordered ratio to
another, as in the sign test. It assumes only that pairs are independent and alike: a ratio is
above the median as often as below it. A t interval would assume normal noise, and code could widen
it by being very slow now and then, until nobody can say that it is too slow. This interval depends
on how many pairs are slow and not on how slow they are, so code that is to look fast in it has to
be fast.

The ratios are looked at up to three times. By `LOOKS`, the median of the pairs lies below the
interval in less than 1 % of all measurements, over all looks together. So code that is exactly at
the limit is called too slow in less than 1 % of them. What cannot be said after the last look
counts as fast enough.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

# After how many pairs the ratios are looked at, and which of the ordered ratios, counted from
# either end, then bounds the interval. `tests/grader/course/test_ratio.py` computes the errors.
LOOKS = ((12, 2), (24, 6), (48, 15))
FIRST_LOOK = LOOKS[0][0]

Speed = Literal["fast enough", "too slow", "in doubt"]


@dataclass(frozen=True)
class Ratio:
    """What was measured, and what follows from it.

    Attributes:
        says: The verdict.
        limit: The largest ratio that is allowed.
        middle: The median of the ratios.
        least: The lower end of the interval.
        most: Its upper end.
        pairs: The number of pairs.
    """

    says: Speed
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
        ratios: Measures another pair whenever it is asked for the next ratio. It may end after the
            first look, if there is no time for more.
        limit: The largest ratio that is allowed.
    """
    source, found = iter(ratios), list[float]()
    for pairs, rank in LOOKS:
        found += itertools.islice(source, pairs - len(found))
        if len(found) < pairs:
            break
        last = _at(sorted(found), rank, limit)
        if last.says != "in doubt":
            break
    return last


def _at(ordered: list[float], rank: int, limit: float) -> Ratio:
    """One look at ordered ratios."""
    least, most = ordered[rank - 1], ordered[-rank]
    half = len(ordered) // 2  # the number of pairs is even
    middle = math.sqrt(max(0.0, ordered[half - 1]) * max(0.0, ordered[half]))
    says: Speed = "in doubt"
    if most <= limit:
        says = "fast enough"
    elif least > limit:
        says = "too slow"
    return Ratio(says, limit, middle, least, most, len(ordered))
