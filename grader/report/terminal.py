"""The report that a teaching assistant reads: a table of problems, each failure below it, the total.

80 columns are enough; a wider terminal is used; colour only where the output is one. A stranger's text reaches it as
characters without a meaning of their own.
"""

import io

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from grader.errors import Status
from grader.results import WORST_FIRST, Ignored, ProblemResult, SubmissionResult, TestResult

WIDTH = 80
BAR = 16
MAX_REASONS = 4  # of a problem; the JSON has them all
# By the device of tests that wait for it: what is said of their points, and what they are called.
PENDING = {
    "cuda": ("they need a CUDA device (grade with --device cuda, then `grader merge`)", "for a CUDA device"),
    "cpu": ("their tests run on a CPU (grade with --device cpu, then `grader merge`)", "for a CPU"),
}
STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "red",
    Status.NOT_ATTEMPTED: "yellow",
    Status.CRASHED: "bold red",
    Status.TIMEOUT: "red",
    Status.MEMORY: "red",
    Status.POLICY: "magenta",
    Status.DEFERRED: "cyan",
    Status.GRADER_ERROR: "bold white on red",
}


def show(result: SubmissionResult, console: Console, *, sections: dict[str, str]) -> None:
    """Print the report: as wide as the terminal and in its colours, or 80 columns of plain text where there is none.

    Args:
        result: What to report.
        console: Where to.
        sections: The handout's section of each problem, by id.
    """
    if console.is_terminal:
        console.print(_report(result, sections))
    else:
        console.file.write(render(result, sections=sections))


def render(result: SubmissionResult, *, sections: dict[str, str]) -> str:
    """The report as plain text, 80 columns wide."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(_report(result, sections))
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())


def _report(result: SubmissionResult, sections: dict[str, str]) -> RenderableType:
    parts: list[RenderableType] = [_head(result), _table(result), Text()]
    for problem in result.problems:
        if problem.status is not Status.PASSED:
            parts += _failures(problem, sections.get(problem.id, ""))
    return Group(*parts, _foot(result))


def _head(result: SubmissionResult) -> RenderableType:
    return Rule(Text(result.submission.name), characters="─", style="dim")


def _table(result: SubmissionResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("problem", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR)
    table.add_column("tests", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for problem in result.problems:
        tests = _counted(problem)
        table.add_row(
            Text(problem.id),
            f"{problem.score:.2f} / {_points(problem.max_score)}",
            _bar(problem),
            f"{sum(test.status is Status.PASSED for test in tests)}/{len(tests)}",
            Text(problem.status.value, style=STYLES[problem.status]),
        )
    total = f"{result.score:.2f} / {_points(result.max_score)}"
    table.add_row(Text("total", style="bold"), Text(total, style="bold"), "", "", "")
    return table


def _points(points: float) -> str:
    """5 as 5, and a part of a point to the same two digits as a score."""
    return f"{points:.2f}".removesuffix(".00")


def _counted(problem: ProblemResult) -> list[TestResult]:
    """The tests that are shown: not those that wait for another device and are worth nothing meanwhile."""
    return [test for test in problem.tests if test.counts]


def _bar(problem: ProblemResult) -> Text:
    filled = int(BAR * problem.score / problem.max_score) if problem.max_score else 0
    return Text("█" * filled, style=STYLES[problem.status]) + Text("·" * (BAR - filled), style="dim")


def _failures(problem: ProblemResult, section: str) -> list[RenderableType]:
    """The worst reasons, each once and with all the tests that it failed; then what was not attempted, together."""
    reasons: dict[tuple[str, str | None], list[TestResult]] = {}
    for test in problem.tests:
        if test.status not in (Status.PASSED, Status.NOT_ATTEMPTED, Status.DEFERRED):
            reasons.setdefault((test.message.split("\n  rule")[0], test.hint), []).append(test)
    worst_first = sorted(reasons.values(), key=lambda tests: WORST_FIRST.index(tests[0].status))
    parts = [part for tests in worst_first[:MAX_REASONS] for part in _failure(problem, tests, section)]
    more = [test for tests in worst_first[MAX_REASONS:] for test in tests]
    if more:
        parts.append(Text(f"{problem.id}: {len(more)} more tests", style=STYLES[problem.status]))
        lost = _lost(more, f"{len(more)} of {len(_counted(problem))} tests")
        parts += [_labelled("failed", "\n".join(test.id for test in more)), _labelled("lost", lost), Text()]
    missing = [test for test in problem.tests if test.status is Status.NOT_ATTEMPTED]
    return parts + (_failure(problem, missing, section) if missing else [])


def _failure(problem: ProblemResult, tests: list[TestResult], section: str) -> list[RenderableType]:
    first = tests[0]
    head, *details = first.message.split("\n")
    if first.status is Status.NOT_ATTEMPTED and details:
        head = f"{problem.id}: not attempted"
        places = dict.fromkeys(line for test in tests for line in test.message.split("\n") if line.startswith("  at"))
        details = list(places)
    parts: list[RenderableType] = [Text(head, style=STYLES[first.status])]
    parts += [_labelled(line[2:12].strip(), line[12:]) for line in details]
    hint = f"{first.hint}  " if first.hint else ""
    parts.append(_labelled("hint" if hint else "see", f"{hint}handout §{section}"))
    names = first.id if len(tests) == 1 else f"{len(tests)} of {len(_counted(problem))} tests"
    return [*parts, _labelled("lost", _lost(tests, names)), Text()]


def _lost(tests: list[TestResult], names: str) -> str:
    """The points that these tests cost; those that a CUDA problem has for a CPU cost none."""
    lost = sum(test.max_score for test in tests)
    return f"{lost:.2f} points in {names}" if lost else f"no points: a CUDA device decides them (on a CPU: {names})"


def _labelled(label: str, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=9, style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text))
    return Padding(grid, (0, 0, 0, 2))


def _by_reason(ignored: list[Ignored]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for item in ignored:
        reasons.setdefault(item.reason, []).append(item.path)
    return reasons


def _foot(result: SubmissionResult) -> RenderableType:
    grader = result.grader
    lines = [Rule(characters="─", style="dim")]
    rows: list[RenderableType] = [*lines]
    if result.has_grader_error:
        rows.append(Text("The grader failed: this score is not final. The fault is ours, see above.", style="bold red"))
    rows += [Text(line, style=STYLES[Status.DEFERRED]) for line in _pending(result)]
    rows.append(Text(f"score {result.score:.2f} of {_points(result.max_score)}   in {result.seconds:.1f} s", style="bold"))
    warning = "  (NOT ISOLATED: for debugging only)" if grader.isolation == "none" else ""
    rows.append(Text(f"isolation {grader.isolation}{warning} · device {grader.device} · seed {grader.seed}", style="dim"))
    rows.append(
        Text(
            f"sources {result.submission.sha256[:12]} · suite {grader.suite_sha256[:12]} · grader {grader.version}",
            style="dim",
        )
    )
    rows += [Text(line, style="dim") for line in _environments(result)]
    if result.submission.ignored:
        rows.append(Text("not graded:"))
        reasons = _by_reason(result.submission.ignored)
        rows += [Padding(Text(f"{reason}: {', '.join(names)}"), (0, 0, 0, 2)) for reason, names in reasons.items()]
    return Group(*rows)


def _pending(result: SubmissionResult) -> list[str]:
    """What waits for another device: points, and tests that are worth none before they have run."""
    lines = []
    for device, (they_need, called) in PENDING.items():
        tests = [t for p in result.problems for t in p.tests if t.status is Status.DEFERRED and t.device == device]
        points = sum(test.max_score for test in tests)
        others = sum(not test.counts for test in tests)
        if points:
            lines.append(f"{_points(points)} points are pending: {they_need}.")
        if others:
            what, are = ("test", "is") if others == 1 else ("tests", "are")
            lines.append(f"{others} {what} {called} {are} pending{' as well' if points else ''}.")
    return lines


def _environments(result: SubmissionResult) -> list[str]:
    """What each run ran in, in a line."""
    lines = []
    for run in result.runs or [result.grader]:
        known = " · ".join(f"{name} {value}" for name, value in run.environment.items())
        lines += [f"{run.device}: {known}"] if known else []
    return lines
