"""Item analysis: how hard each hidden test is, and how well it separates strong and weak students.

The definitions are those of classical test theory (Crocker and Algina, 1986, chapter 14). An item's
difficulty is the share of students who pass it. Its discrimination is the point-biserial
correlation between passing it and the score on all other items. The correlation is called
corrected because it leaves out the item itself, which always correlates with itself.
"""

import math
from collections.abc import Sequence

import numpy as np

FEWEST = 20  # a test that fewer students attempted gets no remark
# A correlation means nothing if fewer students than this pass, or fewer than this fail.
FEWEST_OF_EACH = 5
POOR = 0.2  # a discrimination below this is poor (Ebel and Frisbie, 1991, chapter 13)
# A test that a larger share passes cannot separate many students, and does not have to.
EASY = 0.9
# Standard errors above a correlation: a one-sided limit that chance exceeds once in forty times.
DEVIATIONS = 1.96

NOBODY_PASSES = "nobody passes it"
STRONG_FAIL = "strong students fail it more often than weak ones"
SAYS_LITTLE = "it hardly separates strong students from weak ones"
NOBODY_FAILS = "nobody fails it"
SUSPICIOUS = (NOBODY_PASSES, STRONG_FAIL, SAYS_LITTLE)


def difficulty(passed: Sequence[bool]) -> float | None:
    """The share of students who pass, from 0 (hardest) to 1; None if nobody attempted the test."""
    return sum(passed) / len(passed) if passed else None


def discrimination(passed: Sequence[bool], rest: Sequence[float]) -> float | None:
    """The corrected point-biserial correlation of a test, from -1 to 1.

    Args:
        passed: Whether each student passed the test; those who did not attempt it are left out.
        rest: The points of the same students on all other tests.

    Returns:
        The correlation; None if it is unknown, for a reason that `why_unknown` gives.
    """
    if why_unknown(passed, rest):
        return None
    return float(np.corrcoef(np.asarray(passed, dtype=float), np.asarray(rest))[0, 1])


def why_unknown(passed: Sequence[bool], rest: Sequence[float]) -> str:
    """Why a test's discrimination is not known; empty if it is."""
    ones = sum(passed)
    for count, does in ((ones, "passes"), (len(passed) - ones, "fails")):
        if count < FEWEST_OF_EACH:
            many = {"passes": "pass", "fails": "fail"}[does]
            return f"only {count} {does if count == 1 else many}" if count else f"nobody {does}"
    return "all have the same points on the other tests" if np.ptp(rest) < 1e-9 else ""


def remark(passed: Sequence[bool], found: float | None) -> str:
    """A remark about a test; empty if the test is good, or if too few students attempted it.

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
    """The upper confidence limit of a correlation.

    By Fisher's transformation, the inverse hyperbolic tangent of a correlation is approximately
    normal, with the standard error 1 / √(n - 3).
    """
    inside = min(max(correlation, -1 + 1e-9), 1 - 1e-9)
    return math.tanh(math.atanh(inside) + DEVIATIONS / math.sqrt(students - 3))
