"""The suite's own proof: a test suite is a program and has to be tested.

For each problem: the reference earns full marks with every seed, the stub exactly 0 with every test `not_attempted`, each wrong
solution loses points in its problem and in no other of its module, each variant keeps full marks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table
from rich.text import Text

from grader import fragments
from grader.check import grade
from grader.course import Course, Problem
from grader.errors import Status
from grader.results import ProblemResult, SubmissionResult
from grader.sandbox.box import Sandbox
from grader.submission import Submission

HERE = Path(__file__).parent
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Trial:
    """One submission to be graded, and what must come out of it for its problem."""

    problem: Problem
    kind: str  # "reference", "stub", "wrong" or "variant"
    name: str
    sources: dict[str, bytes]
    seed: int = 0


@dataclass(frozen=True)
class Row:
    """What came out of one trial."""

    trial: Trial
    result: ProblemResult
    failed_tests: list[str]
    complaint: str  # empty where it is as it must be


@dataclass
class Matrix:
    """Every trial."""

    rows: list[Row] = field(default_factory=list)

    @property
    def failed(self) -> list[Row]:
        """The rows that are not as they must be."""
        return [row for row in self.rows if row.complaint]


def validate(
    course: Course, sandbox: Sandbox, problems: list[Problem], *, seeds: int = 1, progress: Progress | None = None
) -> Matrix:
    """Grade every reference, stub, wrong solution and variant of these problems.

    Args:
        course: The course; its reference solutions, wrong ones and variants are the grader's own.
        sandbox: Where they run.
        problems: Which problems.
        seeds: How many seeds the reference and the variants are graded with.
        progress: Called after each trial.
    """
    trials = [trial for problem in problems for trial in trials_of(course, problem, seeds)]
    matrix = Matrix()
    for done, trial in enumerate(trials, 1):
        matrix.rows.append(run(trial, course, sandbox))
        if progress:
            progress(f"{trial.problem.id} {trial.name}", done, len(trials))
    return matrix


def trials_of(course: Course, problem: Problem, seeds: int) -> Iterator[Trial]:
    """Everything that a problem's tests are tried on."""
    reference = sources_in(HERE / "reference")
    for seed in range(seeds):
        yield Trial(problem, "reference", "reference", reference, seed)
    yield Trial(problem, "stub", "stub", sources_in(course.root / "assignment"))
    for kind, folder, count in (("wrong", "wrong", 1), ("variant", "variants", seeds)):
        for fragment in fragments.load(HERE / folder):
            if fragment.problem == problem.id:
                module = fragment.applied_to(reference[problem.path].decode()).encode()
                for seed in range(count):
                    yield Trial(problem, kind, fragment.name, reference | {problem.path: module}, seed)


def run(trial: Trial, course: Course, sandbox: Sandbox) -> Row:
    """Grade one trial on every problem of its module, so that a wrong solution is seen to cost its own problem alone."""
    submission = Submission(trial.name, trial.sources, [])
    neighbours = [p for p in course.problems if p.module == trial.problem.module]
    problems = neighbours if trial.kind in ("wrong", "variant") else [trial.problem]
    graded = grade(submission, course, sandbox, problems=problems, device=trial.problem.device, seed=trial.seed)
    result = next(p for p in graded.problems if p.id == trial.problem.id)
    failed = [test.id for test in result.tests if test.status is not Status.PASSED]
    complaint = _complaint(trial, result, graded)
    where = f"{trial.problem.id} · {trial.kind} {trial.name} (seed {trial.seed})"
    return Row(trial, result, failed, f"{where}: {complaint}" if complaint else "")


def sources_in(folder: Path) -> dict[str, bytes]:
    """The modules in a folder as a submission would hold them."""
    return {f"assignment/{path.name}": path.read_bytes() for path in sorted(folder.glob("[!_]*.py"))}


def _complaint(trial: Trial, result: ProblemResult, graded: SubmissionResult) -> str:
    """What is not as it must be, or an empty string."""
    faults = [t for p in graded.problems for t in p.tests if t.status is Status.GRADER_ERROR]
    if faults:
        return f"a fault of the tests: {faults[0].id}: {faults[0].message}"
    others = [p.id for p in graded.problems if p.id != trial.problem.id and p.score != p.max_score]
    lost = [t for t in result.tests if t.status is not Status.PASSED]
    if trial.kind in ("reference", "variant") and lost:
        return f"{len(lost)} tests fail, the first is {lost[0].id}: {lost[0].message}"
    if trial.kind == "stub" and (result.score != 0 or result.status is not Status.NOT_ATTEMPTED):
        return f"it earns {result.score:g} with status {result.status}; a stub earns 0 as not_attempted"
    if trial.kind == "wrong" and not lost:
        return "it passes every test; a wrong solution has to be caught"
    if trial.kind == "wrong" and result.status is not Status.FAILED:
        return f"its status is {result.status}: {lost[0].message}"
    if others:
        return f"it costs points in {', '.join(others)} as well"
    return ""


def table(matrix: Matrix) -> Table:
    """The matrix for a reader: one row a trial, and which tests it fails."""
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("problem", no_wrap=True)
    shown.add_column("what", no_wrap=True)
    shown.add_column("points", justify="right", no_wrap=True)
    shown.add_column("fails")
    for row in matrix.rows:
        mark = Text("✗ ", style="bold red") if row.complaint else Text("✓ ", style="green")
        name = row.trial.name if row.trial.kind == row.trial.name else f"{row.trial.kind} {row.trial.name}"
        fails = ", ".join(row.failed_tests[:2]) + (
            f" and {len(row.failed_tests) - 2} more" if len(row.failed_tests) > 2 else ""
        )
        shown.add_row(row.trial.problem.id, mark + Text(name), f"{row.result.score:.2f}/{row.result.max_score:g}", Text(fails))
    return shown
