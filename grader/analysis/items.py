"""Item analysis: how hard each hidden test is, and whether it tells strong students from weak ones.

The definitions are those of classical test theory (Crocker and Algina, 1986, chapter 14). The
difficulty of an item is the share of those who pass it. Its discrimination is the point-biserial
correlation of passing it with the score on all other items. It is called corrected, because an item
always correlates with itself.
"""

import math
from collections.abc import Sequence

import numpy as np

FEWEST = 20  # students who attempted a test, below which nothing is said about it
FEWEST_OF_EACH = 5  # students who pass, and who fail; a correlation of fewer means nothing
POOR = 0.2  # a discrimination below this is poor (Ebel and Frisbie, 1991, chapter 13)
EASY = 0.9  # a test that more pass cannot tell many students apart, and need not
# Standard errors above a correlation: the one-sided limit that chance passes once in forty times.
DEVIATIONS = 1.96

NOBODY_PASSES = "nobody passes it"
STRONG_FAIL = "strong students fail it more often than weak ones"
SAYS_LITTLE = "it hardly tells strong students from weak ones"
NOBODY_FAILS = "nobody fails it"
SUSPICIOUS = (NOBODY_PASSES, STRONG_FAIL, SAYS_LITTLE)


def difficulty(passed: Sequence[bool]) -> float | None:
    """The share that passes, from 0 (hardest) to 1; None if nobody attempted the test."""
    return sum(passed) / len(passed) if passed else None


def discrimination(passed: Sequence[bool], rest: Sequence[float]) -> float | None:
    """The corrected point-biserial correlation of a test, from -1 to 1.

    Args:
        passed: Whether each student passed the test; those who did not attempt it are left out.
        rest: The points of the same students in everything else.

    Returns:
        The correlation; None if it is not defined (everybody or nobody passes, or all have the same
        points) or if fewer than five students pass or fail.
    """
    ones = sum(passed)
    if min(ones, len(passed) - ones) < FEWEST_OF_EACH or np.ptp(rest) < 1e-9:
        return None
    return float(np.corrcoef(np.asarray(passed, dtype=float), np.asarray(rest))[0, 1])


def remark(passed: Sequence[bool], found: float | None) -> str:
    """What a person should know about a test; empty if it is a good one, or for too few students.

    Args:
        passed: Whether each student who attempted the test passed it.
        found: Its discrimination.
    """
    if len(passed) < FEWEST:
        return ""
    if not any(passed):
        return NOBODY_PASSES
    if all(passed):
        return NOBODY_FAILS
    if found is None or (limit := _upper_limit(found, len(passed))) >= POOR:
        return ""
    if limit < 0:
        return STRONG_FAIL
    return SAYS_LITTLE if sum(passed) <= EASY * len(passed) else ""


def _upper_limit(correlation: float, students: int) -> float:
    """What the correlation of very many such students is at most, but for rare chance.

    Fisher's transformation: the inverse hyperbolic tangent of a correlation is about normal, with
    the standard error 1 / √(n - 3).
    """
    inside = min(max(correlation, -1 + 1e-9), 1 - 1e-9)
    return math.tanh(math.atanh(inside) + DEVIATIONS / math.sqrt(students - 3))
