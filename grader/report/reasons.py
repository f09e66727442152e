"""The contents that reports share: why points were lost, what was not begun, what is pending."""

from dataclasses import dataclass

from grader.base.errors import Status
from grader.results.records import WORST_FIRST, Ignored, ProblemResult, SubmissionResult, TestResult

# For each device that deferred tests may need: why their points are pending, and a name for them.
PENDING = {
    "cuda": (
        "they need a CUDA device (grade with --device cuda, then `grader merge`)",
        "for a CUDA device",
    ),
    "cpu": ("their tests run on a CPU (grade with --device cpu, then `grader merge`)", "for a CPU"),
}


@dataclass(frozen=True)
class Reason:
    """Why tests of one problem failed: one mistake or failure, with all tests that it failed."""

    problem: ProblemResult
    tests: list[TestResult]

    @property
    def points(self) -> float:
        """The points that it cost."""
        return sum(test.max_score for test in self.tests)

    @property
    def is_ours(self) -> bool:
        """Whether it is a fault of the grader."""
        return self.tests[0].status is Status.GRADER_ERROR


def reasons_in(result: SubmissionResult) -> list[Reason]:
    """Every reason: faults of the grader first, then the most expensive.

    Unattempted and pending tests are left out.
    """
    found: list[Reason] = []
    for problem in result.problems:
        tests: dict[str, list[TestResult]] = {}
        for test in problem.tests:
            if test.status not in (Status.PASSED, Status.NOT_ATTEMPTED, Status.DEFERRED):
                tests.setdefault(test.mistake or test.said, []).append(test)
        found += [Reason(problem, of_reason) for of_reason in tests.values()]
    return sorted(
        found, key=lambda r: (not r.is_ours, -r.points, WORST_FIRST.index(r.tests[0].status))
    )


@dataclass(frozen=True)
class NotAttempted:
    """The stubs that remain.

    Attributes:
        names: Whole problems, or a problem followed by its functions that are still stubs.
        points: The points of their tests.
    """

    names: list[str]
    points: float


def not_attempted(result: SubmissionResult) -> NotAttempted:
    """The remaining stubs: whole problems, or functions of other problems."""
    names: list[str] = []
    points = 0.0
    for problem in result.problems:
        missing = [
            test for test in problem.tests if test.status is Status.NOT_ATTEMPTED and test.max_score
        ]
        whole = len(missing) == len(counted(problem))
        functions = dict.fromkeys(name for test in missing if (name := test.about.split(".")[0]))
        if missing:
            points += sum(test.max_score for test in missing)
            names.append(
                problem.id if whole or not functions else f"{problem.id} ({', '.join(functions)})"
            )
    return NotAttempted(names, points)


def counted(problem: ProblemResult) -> list[TestResult]:
    """The tests that are shown.

    Tests that wait for another device and are worth nothing until then are left out.
    """
    return [test for test in problem.tests if test.counts]


def as_points(number: float) -> str:
    """Points as text: whole numbers without decimals, fractions with two, as in a score."""
    return f"{number:.2f}".removesuffix(".00")


def by_reason(ignored: list[Ignored]) -> dict[str, list[str]]:
    """The names of the files that were not graded, by reason."""
    reasons: dict[str, list[str]] = {}
    for item in ignored:
        reasons.setdefault(item.reason, []).append(item.path)
    return reasons


def pending(result: SubmissionResult) -> list[str]:
    """Sentences about pending points, and about pending tests that are worth nothing until run."""
    lines = []
    for device, (they_need, called) in PENDING.items():
        tests = [
            t
            for p in result.problems
            for t in p.tests
            if t.status is Status.DEFERRED and t.device == device
        ]
        points = sum(test.max_score for test in tests)
        others = sum(not test.counts for test in tests)
        if points:
            lines.append(f"{as_points(points)} points are pending: {they_need}.")
        if others:
            what, are = ("test", "is") if others == 1 else ("tests", "are")
            lines.append(f"{others} {what} {called} {are} pending{' as well' if points else ''}.")
    return lines


def environments(result: SubmissionResult) -> list[str]:
    """The environment of each run, one line each."""
    lines = []
    for run in result.runs or [result.grader]:
        known = " · ".join(f"{name} {value}" for name, value in run.environment.items())
        lines += [f"{run.device}: {known}"] if known else []
    return lines
