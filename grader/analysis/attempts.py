"""What a class's attempts show: from first to best, where students stall, and on which test."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.report.wording import clean

EQUAL = 1e-9  # shares that differ by less are equal


@dataclass(frozen=True)
class Try:
    """One graded attempt of a student."""

    score: float  # its score, before the late penalty
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
    # The test that failed most often in the last attempts of those who stalled; empty if nobody
    # stalled.
    last_failed: str
    failing: int  # how many of them failed it


def advance(problem: str, tries: Sequence[Sequence[Try]]) -> Advance | None:
    """What happened to a problem; None if nobody began it in two attempts.

    Args:
        problem: Its id.
        tries: For each student, the graded attempts in the order of their times.
    """
    begun = {
        number: [one for one in theirs if problem in one.shares]
        for number, theirs in enumerate(tries)
    }
    several = {number: theirs for number, theirs in begun.items() if len(theirs) > 1}
    if not several:
        return None
    shares = [[one.shares[problem] for one in theirs] for theirs in several.values()]
    stalled = [n for n, theirs in several.items() if is_stalled(problem, theirs)]
    tests = Counter(
        test for n in stalled for test in several[n][-1].failed.get(problem, ())[:1]
    ).most_common(1)
    return Advance(
        tried=list(several),
        first=statistics.fmean(theirs[0] for theirs in shares),
        best=statistics.fmean(max(theirs) for theirs in shares),
        stalled=stalled,
        last_failed=clean(tests[0][0], 150) if tests else "",
        failing=tests[0][1] if tests else 0,
    )


def is_stalled(problem: str, tries: Sequence[Try]) -> bool:
    """Whether the last of a student's attempts at a problem gained nothing and is not full."""
    shares = [one.shares[problem] for one in tries if problem in one.shares]
    if len(shares) < 2 or shares[-1] > 1 - EQUAL:
        return False
    return shares[-1] <= max(shares[:-1]) + EQUAL


def in_words(tries: Sequence[Try], problems: Sequence[str]) -> str:
    """A student's scores from first to last, and where the student stalls; "" for one attempt."""
    if len(tries) < 2:
        return ""
    stalls = [
        f"{problem} ({clean(tries[-1].failed[problem][0], 150)})"
        for problem in problems
        if is_stalled(problem, tries) and tries[-1].failed.get(problem)
    ]
    text = " → ".join(f"{one.score:g}" for one in tries)
    return f"{text}; stalls at {', '.join(stalls)}" if stalls else text
