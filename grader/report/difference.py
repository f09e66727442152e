"""Two results of one submission as text: which points and tests changed, and why that may be."""

from grader.printable import one_line
from grader.results.compare import changed_tests
from grader.results.records import SubmissionResult

SMALL = 0.005  # points: less is not shown anywhere


def render(old: SubmissionResult, new: SubmissionResult) -> str:
    """The differences from an old result to a new one, a line each."""
    lines = [f"changed: {line}" for line in _settings(old, new)]
    lines.append(
        f"points {old.score:.2f} of {old.max_score:g}, "
        f"then {new.score:.2f} of {new.max_score:g} ({new.score - old.score:+.2f})"
    )
    was = {problem.id: problem.score for problem in old.problems}
    now = {problem.id: problem.score for problem in new.problems}
    for problem in now | was:
        before, after = was.get(problem), now.get(problem)
        if before is None or after is None or abs(after - before) >= SMALL:
            lines.append(f"  {problem}: {_points(before)}, then {_points(after)}")
    tests = changed_tests(old, new)
    lines += [f"  {test.text}" for test in tests] or ["no test ends differently"]
    return "".join(f"{one_line(line, 300)}\n" for line in lines)


def _points(score: float | None) -> str:
    return "not graded" if score is None else f"{score:.2f}"


def _settings(old: SubmissionResult, new: SubmissionResult) -> list[str]:
    """What differs between the runs, apart from how the tests ended."""
    settings = {
        "submission": [r.submission.sha256[:12] for r in (old, new)],
        "suite": [r.grader.suite_sha256[:12] for r in (old, new)],
        "grader": [r.grader.version for r in (old, new)],
        "device": [r.grader.device for r in (old, new)],
        "isolation": [r.grader.isolation for r in (old, new)],
        "seed": [str(r.grader.seed) for r in (old, new)],
    }
    return [f"{name} {a} became {b}" for name, (a, b) in settings.items() if a != b]
