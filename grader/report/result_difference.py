"""Two results of one submission as text: which points and tests changed, and why that may be."""

from dataclasses import dataclass

from grader.base.errors import Status
from grader.results.result_records import ProblemResult, SubmissionResult
from kit.safe_text import one_line

ABSENT = "absent"


@dataclass(frozen=True)
class ChangedTest:
    name: str  # the problem and the test
    before: str  # how it ended in the old result; ABSENT if the old result has no such test
    after: str  # how it ended in the new result

    @property
    def passes(self) -> bool:
        return self.after == Status.PASSED

    @property
    def text(self) -> str:
        return f"{self.name}: {self.before}, now {self.after}"


def changed_tests(
    before: SubmissionResult | None, after: SubmissionResult | None
) -> list[ChangedTest]:
    """The tests with different outcomes; None stands for a result without tests."""
    was, now = _statuses(before), _statuses(after)
    both = [ChangedTest(n, was.get(n, ABSENT), now.get(n, ABSENT)) for n in now | was]
    return [test for test in both if test.before != test.after]


def _statuses(result: SubmissionResult | None) -> dict[str, str]:
    if result is None:
        return {}
    return {
        f"{problem.id}, {test.id}": str(test.status)
        for problem in result.problems
        for test in problem.tests
        if test.counts
    }


NOT_GRADED = "not graded"


def render(old: SubmissionResult, new: SubmissionResult) -> str:
    """The differences from an old result to a new one, a line each."""
    lines = [f"changed: {line}" for line in _settings(old, new)]
    lines.append(
        f"points {old.score:.2f} of {old.max_score:g}, "
        f"then {new.score:.2f} of {new.max_score:g} ({new.score - old.score:+.2f})"
    )
    lines += [
        f"the {name} result has a fault of the grader: its points do not count"
        for name, result in (("old", old), ("new", new))
        if result.has_grader_error
    ]
    was = {problem.id: _points(problem) for problem in old.problems}
    now = {problem.id: _points(problem) for problem in new.problems}
    for problem in now | was:
        before, after = was.get(problem, NOT_GRADED), now.get(problem, NOT_GRADED)
        if before != after:
            lines.append(f"  {problem}: {before}, then {after}")
    tests = changed_tests(old, new)
    lines += [f"  {test.text}" for test in tests] or ["no test ends differently"]
    return "".join(f"{one_line(line, 300)}\n" for line in lines)


def _points(problem: ProblemResult) -> str:
    return f"{problem.score:.2f} of {problem.max_score:g}"


def _settings(old: SubmissionResult, new: SubmissionResult) -> list[str]:
    """What differs between the runs, apart from how the tests ended."""
    settings = {
        "submission": [r.submission.sha256[:12] for r in (old, new)],
        "suite": [r.grader.suite_sha256[:12] for r in (old, new)],
        "grader": [r.grader.version for r in (old, new)],
        "device": [r.grader.device for r in (old, new)],
        "isolation": [r.grader.isolation for r in (old, new)],
        "seed": [str(r.grader.seed) for r in (old, new)],
        "environment": [_environment(r) for r in (old, new)],
    }
    return [f"{name} {a} became {b}" for name, (a, b) in settings.items() if a != b]


def _environment(result: SubmissionResult) -> str:
    """The versions and devices of the run, or of the runs that were merged."""
    runs = result.runs or [result.grader]
    return "; ".join(" ".join(f"{k} {v}" for k, v in run.environment.items()) for run in runs)
