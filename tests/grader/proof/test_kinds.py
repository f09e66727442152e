"""The kinds of trials: what is a complaint about each, and what is none."""

import pytest

from grader.base.errors import Status
from grader.proof.kinds import DECLINABLE, KINDS, Judged
from grader.results.points import problem_result
from grader.results.records import Outcome

PASSED, FAILED, MISSING = Status.PASSED, Status.FAILED, Status.NOT_ATTEMPTED


def judged(*statuses, **more):
    """A trial whose tests t0, t1, … ended so; the first one weighs nine times as much."""
    tests = [
        Outcome(id=f"t{i}", weight=1 if i else 9, status=status, what="why")
        for i, status in enumerate(statuses)
    ]
    return Judged(problem_result("p", "m", 10, tests), **more)


# A kind, how its tests ended, and what the complaint about that is.
ENDS = [
    ("reference", judged(PASSED, PASSED), ""),
    ("variant", judged(FAILED, FAILED), "2 tests fail, the first is t0: why"),
    ("words", judged(PASSED, FAILED), "t1 fails: why"),
    ("stub", judged(MISSING, MISSING), ""),
    (
        "stub",
        judged(MISSING, FAILED),
        "t1 is failed; a stub earns 0 as not_attempted: mark the solution inside each function",
    ),
    ("wrong", judged(PASSED, FAILED), ""),
    ("wrong", judged(FAILED, Status.MEMORY), ""),
    ("wrong", judged(PASSED), "it passes every test; a wrong solution has to be caught"),
    ("wrong", judged(FAILED, Status.TIMEOUT), "its status is timeout: why"),
    ("wrong", judged(PASSED, FAILED, most=8), "it earns 9.00 points, and may earn at most 8"),
    ("junk", judged(FAILED, FAILED), ""),
    ("junk", judged(PASSED, FAILED), "t0 passes with this answer"),
    ("junk", judged(PASSED, PASSED), "t0, t1 pass with this answer"),
    ("unchecked", judged(PASSED, FAILED), ""),
    ("unchecked", judged(FAILED, PASSED), "it loses 90.0 %, more than 10: t0"),
    ("unwritten", judged(PASSED, FAILED), ""),
    ("hostile", judged(PASSED, FAILED), ""),
    ("field", judged(PASSED, FAILED), ""),
    ("field", judged(PASSED, is_never_sent=True), ""),
    ("field", judged(PASSED), "no test looks at this field"),
    ("field", judged(PASSED, FAILED, blind=("t0",)), "t0 passes without these answers"),
    ("mutant", judged(PASSED, FAILED), ""),
    ("mutant", judged(PASSED, excused="it is equal"), ""),
    ("mutant", judged(PASSED), "no test notices it"),
    ("mutant", judged(FAILED, excused="it is equal"), "it is listed as equivalent, but t0 notices"),
]


@pytest.mark.parametrize(("kind", "ended", "complaint"), ENDS)
def test_what_differs_from_what_is_required_is_told(kind, ended, complaint):
    """An empty complaint means that nothing differs."""
    got = KINDS[kind].complaint(ended)
    assert got.startswith(complaint)
    assert bool(got) is bool(complaint)


def test_every_kind_is_tried_here_but_those_that_lose_nothing():
    """Kinds that lose nothing share one rule."""
    rules = {KINDS[kind].complaint for kind, *_ in ENDS}
    assert rules == {kind.complaint for kind in KINDS.values()}
    assert "wrong" not in DECLINABLE
    assert "mutant" not in DECLINABLE
