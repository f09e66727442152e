"""Merge the CPU run and the CUDA run of one submission: each test of its own device's run."""

from collections.abc import Sequence

from grader.base.errors import UsageError
from grader.results.points import problem_result, submission_result
from grader.results.result_records import (
    SUITE,
    GraderInfo,
    ProblemResult,
    SubmissionResult,
    TestResult,
)

DEVICES = ["cpu", "cuda"]

# The levels of isolation, to choose the weaker one of two runs.
WEAKEST_FIRST = ("none", "landlock", "bubblewrap")


def merged(
    one: SubmissionResult, other: SubmissionResult, *, order: Sequence[str]
) -> SubmissionResult:
    """Merge the results of two runs, in any order; a UsageError if they do not belong together."""
    cpu, cuda = _by_device(one, other)
    _refuse_strangers(cpu, cuda)
    runs = {d: {p.id: p for p in run.problems} for d, run in (("cpu", cpu), ("cuda", cuda))}
    places = {problem_id: place for place, problem_id in enumerate(order)}
    ids = sorted(runs["cpu"] | runs["cuda"], key=lambda i: places.get(i, len(places)))
    problems = [_problem({d: runs[d][i] for d in DEVICES if i in runs[d]}) for i in ids]
    return submission_result(
        cpu.submission,
        _info(cpu.grader, cuda.grader),
        problems,
        seconds=cpu.seconds + cuda.seconds,
        runs=[cpu.grader, cuda.grader],
    )


def _by_device(one: SubmissionResult, other: SubmissionResult) -> list[SubmissionResult]:
    devices = [result.grader.device for result in (one, other)]
    if one.runs or other.runs or not set(devices) <= set(DEVICES):
        raise UsageError(
            "one of the two results is itself merged: expected the results of single runs"
        )
    if devices[0] == devices[1]:
        raise UsageError(
            f"both results are of a run with --device {devices[0]}: expected one of each device"
        )
    return sorted((one, other), key=lambda result: DEVICES.index(result.grader.device))


def _refuse_strangers(cpu: SubmissionResult, cuda: SubmissionResult) -> None:
    """Refuse runs of different submissions, suites, versions of the grader or seeds."""
    compared = {
        "submissions": (cpu.submission.sha256, cuda.submission.sha256),
        "suites": (cpu.grader.suite_sha256, cuda.grader.suite_sha256),
        "versions of the grader": (cpu.grader.version, cuda.grader.version),
        "seeds": (str(cpu.grader.seed), str(cuda.grader.seed)),
    }
    for what, (ours, theirs) in compared.items():
        if ours != theirs:
            raise UsageError(
                f"the two results are of different {what}: "
                f"{ours:.12} on the CPU, {theirs:.12} on the CUDA device"
            )


def _info(cpu: GraderInfo, cuda: GraderInfo) -> GraderInfo:
    """The grader's part of the merged result, with the weaker isolation of the two runs."""
    return GraderInfo(
        version=cpu.version,
        suite_sha256=cpu.suite_sha256,
        device="cpu+cuda",
        isolation=next(
            (level for level in WEAKEST_FIRST if level in (cpu.isolation, cuda.isolation)),
            cpu.isolation,
        ),
        seed=cpu.seed,
    )


def _problem(runs: dict[str, ProblemResult]) -> ProblemResult:
    """Merge one problem, given as each run graded it, by the run's device."""
    first = next(iter(runs.values()))
    tests = _tests(first.id, {device: problem.tests for device, problem in runs.items()})
    if not any(test.device == first.device for test in tests):
        raise UsageError(
            f"{first.id} has no test for the device that its points come from: "
            "the grader never writes such a result"
        )
    return problem_result(first.id, first.module, first.max_score, tests, first.device)


def _tests(problem_id: str, runs: dict[str, list[TestResult]]) -> list[TestResult]:
    """Take each test from the run on its own device, or from a run that could not run the suite."""
    for tests in runs.values():
        if [test.id for test in tests] == [SUITE]:
            return tests
    by_id = {device: {test.id: test for test in tests} for device, tests in runs.items()}
    first, *others = by_id.values()
    for other in others:
        if alone := sorted(first.keys() ^ other.keys()):
            raise UsageError(
                f"{problem_id}: {alone[0]} is in only one of the two results, "
                "so they are of different suites"
            )
    return [by_id.get(test.device, first)[test.id] for test in first.values()]
