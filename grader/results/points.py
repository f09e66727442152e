"""Split a problem's points over its tests, and add up what was earned.

A score stays exact while points are added up: each share is a Fraction, converted to float once, at
the end. Full marks therefore equal the points exactly, for a problem and for the whole course.
"""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from grader.base.errors import Status
from grader.results.result_records import (
    GraderInfo,
    Outcome,
    ProblemResult,
    SubmissionInfo,
    SubmissionResult,
    TestResult,
    worst,
)

# What a failed test costs in practice (`pytest.mark.harm`), the dearest first, with the weight of
# such a test. Those without a weight are minor: see `weights_by_harm`.
HARM = {"trains worse": 4, "wrong number": 2, "crash": 1, "not refused": 0, "rare": 0}
MINOR = tuple(harm for harm, weight in HARM.items() if not weight)
EACH_MINOR = 50  # one minor test is worth a 50th of its problem,
ALL_MINOR = 10  # and all of them together at most a 10th


def weights_by_harm(classes: Sequence[str], among: Sequence[str] | None = None) -> list[int]:
    """The weights of tests of these classes of harm.

    Tests of the first three classes weigh 4, 2 and 1. A minor test is worth 2 % of its problem,
    but all minor tests together are worth at most 10 %. If all tests are minor, they weigh alike.
    The tests that share the problem's points may be others, of the classes `among`.
    """
    sharing = classes if among is None else among
    whole = sum(HARM[harm] for harm in sharing)
    minor = sum(harm in MINOR for harm in sharing)
    if not whole:
        return [HARM[harm] or 1 for harm in classes]
    few = minor * ALL_MINOR <= EACH_MINOR
    factor = EACH_MINOR - minor if few else (ALL_MINOR - 1) * minor
    return [factor * HARM[harm] or whole for harm in classes]


def problem_result(
    problem_id: str, module: str, points: float, outcomes: Sequence[Outcome], device: str = "cpu"
) -> ProblemResult:
    """Split a problem's points over its tests by weight and add up what was earned.

    The tests for the problem's own device share the points. A test for another device gets a share
    only in a CPU problem, and only if it ran; while it is deferred, it is worth nothing. So the CPU
    tests of a CUDA problem earn nothing, and a CPU run alone can give all points of a CPU problem.
    """
    shares = _shares(points, device, outcomes)
    tests = [
        TestResult(**msgspec.structs.asdict(one) | {"score": float(got), "max_score": float(share)})
        for one, share in zip(outcomes, shares, strict=True)
        for got in [share if one.status is Status.PASSED else 0]
    ]
    return ProblemResult(
        id=problem_id,
        module=module,
        device=device,
        score=float(_sum(Status.PASSED, outcomes, shares)),
        max_score=float(points),
        pending=float(_sum(Status.DEFERRED, outcomes, shares)),
        status=_status(tests),
        tests=tests,
    )


def _status(tests: list[TestResult]) -> Status:
    """The worst status of the tests that share the points; of all, if those were deferred."""
    found = [test.status for test in tests if test.max_score > 0]
    if set(found) == {Status.DEFERRED}:
        found += [test.status for test in tests if test.status is not Status.DEFERRED]
    return worst(found)


def submission_result(
    submission: SubmissionInfo,
    grader: GraderInfo,
    problems: list[ProblemResult],
    *,
    seconds: float,
    runs: Sequence[GraderInfo] = (),
) -> SubmissionResult:
    """Add up the problems from their exact shares, not from rounded scores."""
    score = pending = points = Fraction(0)
    for problem in problems:
        shares = _shares(problem.max_score, problem.device, problem.tests)
        score += _sum(Status.PASSED, problem.tests, shares)
        pending += _sum(Status.DEFERRED, problem.tests, shares)
        points += Fraction(problem.max_score)
    return SubmissionResult(
        submission=submission,
        grader=grader,
        runs=list(runs),
        score=float(score),
        max_score=float(points - pending),
        pending=float(pending),
        seconds=seconds,
        problems=problems,
    )


def _shares(points: float, device: str, tests: Sequence[Outcome]) -> list[Fraction]:
    weights = [test.weight if _has_share(test, device) else 0 for test in tests]
    return [Fraction(points) * weight / sum(weights) for weight in weights]


def _has_share(test: Outcome, device: str) -> bool:
    return test.device == device or (device == "cpu" and test.status is not Status.DEFERRED)


def _sum(status: Status, tests: Sequence[Outcome], shares: list[Fraction]) -> Fraction:
    return sum(
        (share for test, share in zip(tests, shares, strict=True) if test.status is status),
        Fraction(0),
    )
