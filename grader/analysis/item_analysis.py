"""How hard each test is, how well it separates strong and weak students, and what attempts show.

Difficulty and discrimination are those of classical test theory (Crocker and Algina, 1986, chapter
14): the share of students who pass, and the point-biserial correlation between passing and the
score on all other items, which is called corrected because it leaves out the item itself.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.report.shared_wording import clean

FEWEST = 20  # a test that fewer students attempted gets no remark
# A correlation means nothing if fewer students than this pass, or fewer than this fail.
FEWEST_OF_EACH = 5
POOR = 0.2  # a discrimination below this is poor (Ebel and Frisbie, 1991, chapter 13)
# A test that a larger share passes cannot separate many students, and does not have to.
EASY = 0.9
# Standard errors above a correlation: a one-sided limit that chance exceeds once in forty times.
DEVIATIONS = 1.96
EQUAL = 1e-9  # points or shares that differ by less are equal

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

    `passed` and `rest`, the points on all other tests, are of the students who attempted the test.
    None if too few of them pass or fail, or if all have the same points on the other tests.
    """
    if min(sum(passed), len(passed) - sum(passed)) < FEWEST_OF_EACH:
        return None
    return statistics.correlation(passed, rest) if max(rest) - min(rest) >= EQUAL else None


def remark(passed: Sequence[bool], found: float | None) -> str:
    """A remark about a test; empty if it is good, or if too few students attempted it."""
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


@dataclass(frozen=True)
class Try:
    # The share of each problem's points, by id; problems that were not begun are missing.
    shares: Mapping[str, float]
    # For each problem, the names of the tests that failed, in the suite's order.
    failed: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Advance:
    """What happened to one problem in the attempts of students who handed in more than once."""

    tried: list[int]  # the numbers of the students who began it in two attempts or more
    first: float  # the mean share of its points in their first attempts
    best: float  # the mean share in their best attempts
    stalled: list[int]  # those of them without all points whose last attempt at it gained nothing
    # The test that failed most often in the last attempts of those who stalled, if any did.
    last_failed: str
    failing: int  # how many of them failed it


def advance(problem: str, tries: Sequence[Sequence[Try]]) -> Advance | None:
    """What happened to a problem in each student's graded attempts; None if nobody had two."""
    begun = {n: [one for one in theirs if problem in one.shares] for n, theirs in enumerate(tries)}
    several = {number: theirs for number, theirs in begun.items() if len(theirs) > 1}
    if not several:
        return None
    shares = [[one.shares[problem] for one in theirs] for theirs in several.values()]
    stalled = [n for n, theirs in several.items() if is_stalled(problem, theirs)]
    tests = Counter(t for n in stalled for t in several[n][-1].failed.get(problem, ())[:1])
    (last, failing), *_ = [*tests.most_common(1), ("", 0)]
    return Advance(
        tried=list(several),
        first=statistics.fmean(theirs[0] for theirs in shares),
        best=statistics.fmean(max(theirs) for theirs in shares),
        stalled=stalled,
        last_failed=clean(last, 150),
        failing=failing,
    )


def is_stalled(problem: str, tries: Sequence[Try]) -> bool:
    """Whether the last of a student's attempts at a problem gained nothing and is not full."""
    shares = [one.shares[problem] for one in tries if problem in one.shares]
    if len(shares) < 2 or shares[-1] > 1 - EQUAL:
        return False
    return shares[-1] <= max(shares[:-1]) + EQUAL
