"""The report for teaching assistants: a table of problems, the reasons that cost most, the total.

80 columns are enough, and a wider terminal is used. Colour appears only on a terminal. Text that a
stranger wrote is printed literally, never as markup.
"""

import io
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from grader.errors import Status
from grader.results.records import WORST_FIRST, Ignored, ProblemResult, SubmissionResult, TestResult

WIDTH = 80
BAR = 16
MAX_LINES = 60  # of a report that is not verbose
LINES_FOR_MORE = 4  # lines about what is not shown
LEAST_REASONS = 3  # reasons that are shown, however many lines they take
MAX_RULES = 3  # rules per reason
# Up to this many unattempted problems have a row each; more than that share one row.
MAX_UNTOUCHED = 3
# For each device that deferred tests may need: why their points are pending, and what to call them.
PENDING = {
    "cuda": (
        "they need a CUDA device (grade with --device cuda, then `grader merge`)",
        "for a CUDA device",
    ),
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


def render(
    result: SubmissionResult,
    *,
    sections: dict[str, str],
    verbose: bool = False,
    console: Console | None = None,
) -> str:
    """The report as text, as wide as the terminal and in its colours.

    Without a terminal it is plain text of 80 columns.

    Args:
        result: What to report.
        sections: For each problem's id, the section of the handout.
        verbose: Show every reason with all details. Otherwise show those that cost most, in about
            60 lines.
        console: Where the report will be printed; a file by default.
    """
    if console is None or not console.is_terminal:
        console = Console(
            file=io.StringIO(),
            width=WIDTH,
            color_system=None,
            force_terminal=False,
            legacy_windows=False,
        )
    with console.capture() as capture:
        console.print(_report(result, sections, console, verbose))
    if console.is_terminal:
        return capture.get()
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())


@dataclass(frozen=True)
class Reason:
    """Why tests of one problem were lost: one mistake or failure, with all its failed tests."""

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


def _report(
    result: SubmissionResult, sections: dict[str, str], console: Console, verbose: bool
) -> RenderableType:
    around = [
        _head(result),
        _table(result, verbose),
        Text(),
        *_not_attempted(result),
        _foot(result),
    ]
    blocks = [
        _reason(reason, sections.get(reason.problem.id, ""), verbose)
        for reason in reasons_in(result)
    ]
    left = MAX_LINES - sum(_lines(part, console) for part in around) - LINES_FOR_MORE
    shown = 0
    while shown < len(blocks) and (
        verbose or shown < LEAST_REASONS or left >= _lines(blocks[shown], console)
    ):
        left -= _lines(blocks[shown], console)
        shown += 1
    return Group(*around[:3], *blocks[:shown], *_more(reasons_in(result)[shown:]), *around[3:])


def _lines(part: RenderableType, console: Console) -> int:
    return len(console.render_lines(part, pad=False))


def _more(reasons: list[Reason]) -> list[RenderableType]:
    """A line about the reasons that are not shown."""
    if not reasons:
        return []
    points = sum(reason.points for reason in reasons)
    problems = ", ".join(dict.fromkeys(reason.problem.id for reason in reasons))
    count = "1 more reason" if len(reasons) == 1 else f"{len(reasons)} more reasons"
    return [Text(f"{count}, {points:.2f} points, in {problems}: --verbose shows all"), Text()]


def _head(result: SubmissionResult) -> RenderableType:
    return Rule(Text(result.submission.name), characters="─", style="dim")


def _table(result: SubmissionResult, verbose: bool) -> Table:
    """One row per problem; if many problems have not been begun, these share one row."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("problem", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR)
    table.add_column("tests", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    untouched = [
        p for p in result.problems if p.status is Status.NOT_ATTEMPTED and not _passed([p])
    ]
    if verbose or len(untouched) <= MAX_UNTOUCHED:
        untouched = []
    for problem in result.problems:
        if problem not in untouched:
            _add_row(table, problem.id, [problem])
    if untouched:
        _add_row(table, f"{len(untouched)} others", untouched)
    total = f"{result.score:.2f} / {_points(result.max_score)}"
    table.add_row(Text("total", style="bold"), Text(total, style="bold"), "", "", "")
    return table


def _add_row(table: Table, name: str, problems: list[ProblemResult]) -> None:
    """Add a row with the total of some problems, which have the same status."""
    score, of = sum(p.score for p in problems), sum(p.max_score for p in problems)
    status = problems[0].status
    filled = int(BAR * score / of) if of else 0
    bar = Text("█" * filled, style=STYLES[status]) + Text("·" * (BAR - filled), style="dim")
    tests = f"{_passed(problems)}/{sum(len(_counted(p)) for p in problems)}"
    table.add_row(
        Text(name),
        f"{score:.2f} / {_points(of)}",
        bar,
        tests,
        Text(status.value, style=STYLES[status]),
    )


def _passed(problems: list[ProblemResult]) -> int:
    return sum(test.status is Status.PASSED for problem in problems for test in _counted(problem))


def _points(points: float) -> str:
    """Points as text: 5 as 5, and fractions with the same two decimals as a score."""
    return f"{points:.2f}".removesuffix(".00")


def _counted(problem: ProblemResult) -> list[TestResult]:
    """The tests that are shown.

    Tests that wait for another device and are worth nothing until then are left out.
    """
    return [test for test in problem.tests if test.counts]


def _not_attempted(result: SubmissionResult) -> list[RenderableType]:
    """One paragraph about remaining stubs: whole problems, or functions of other problems."""
    parts: list[str] = []
    points = 0.0
    for problem in result.problems:
        missing = [
            test for test in problem.tests if test.status is Status.NOT_ATTEMPTED and test.max_score
        ]
        whole = len(missing) == len(_counted(problem))
        functions = dict.fromkeys(name for test in missing if (name := test.about.split(".")[0]))
        if missing:
            points += sum(test.max_score for test in missing)
            parts.append(
                problem.id if whole or not functions else f"{problem.id} ({', '.join(functions)})"
            )
    if not parts:
        return []
    return [
        Text(
            f"not attempted, {points:.2f} points: {', '.join(parts)}",
            style=STYLES[Status.NOT_ATTEMPTED],
        ),
        Text(),
    ]


def _reason(reason: Reason, section: str, verbose: bool) -> RenderableType:
    """What went wrong, the mistake that it looks like, the rules that it broke, and its cost."""
    first, tests = reason.tests[0], reason.tests
    parts: list[RenderableType] = [Text(first.head(reason.problem.id), style=STYLES[first.status])]
    parts += [_labelled(fact.label, fact.text) for fact in first.facts]
    if first.mistake:
        parts.append(_labelled("looks like", first.mistake))
    rules = list(dict.fromkeys(test.rule for test in tests if test.rule))
    if rules:
        shown = rules if verbose else rules[:MAX_RULES]
        more = f"\n… and {len(rules) - len(shown)} more" if len(shown) < len(rules) else ""
        parts.append(_labelled("rule" if len(rules) == 1 else "rules", "\n".join(shown) + more))
    if not reason.is_ours:
        hint = f"{first.hint}  " if first.hint else ""
        parts.append(_labelled("hint" if hint else "see", f"{hint}handout §{section}"))
    parts.append(_labelled("lost", _lost(reason, verbose)))
    return Group(*parts, Text())


def _lost(reason: Reason, verbose: bool) -> str:
    """The points that a reason cost, and the tests that cost them."""
    tests = reason.tests
    names = f"{len(tests)} of {len(_counted(reason.problem))} tests"
    names = ", ".join(test.id for test in tests) if verbose or len(tests) == 1 else names
    if reason.is_ours:
        return f"nothing: a fault of ours costs no point ({names})"
    return (
        f"{reason.points:.2f} points in {names}"
        if reason.points
        else f"nothing yet: a run on a GPU decides ({names})"
    )


def _labelled(label: str, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=10, style="dim", no_wrap=True)
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
        rows.append(
            Text(
                "The grader failed: this score is not final. The fault is ours, see above.",
                style="bold red",
            )
        )
    rows += [Text(line, style=STYLES[Status.DEFERRED]) for line in _pending(result)]
    rows.append(
        Text(
            f"score {result.score:.2f} of {_points(result.max_score)}   in {result.seconds:.1f} s",
            style="bold",
        )
    )
    warning = "  (NOT ISOLATED: for debugging only)" if grader.isolation == "none" else ""
    rows.append(
        Text(
            f"isolation {grader.isolation}{warning} · device {grader.device} · seed {grader.seed}",
            style="dim",
        )
    )
    rows.append(
        Text(
            f"sources {result.submission.sha256[:12]} · suite {grader.suite_sha256[:12]} "
            f"· grader {grader.version}",
            style="dim",
        )
    )
    rows += [Text(line, style="dim") for line in _environments(result)]
    if result.submission.ignored:
        rows.append(Text("not graded:"))
        reasons = _by_reason(result.submission.ignored)
        rows += [
            Padding(Text(f"{reason}: {', '.join(names)}"), (0, 0, 0, 2))
            for reason, names in reasons.items()
        ]
    return Group(*rows)


def _pending(result: SubmissionResult) -> list[str]:
    """What waits for another device: points, and tests that are worth nothing until they run."""
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
            lines.append(f"{_points(points)} points are pending: {they_need}.")
        if others:
            what, are = ("test", "is") if others == 1 else ("tests", "are")
            lines.append(f"{others} {what} {called} {are} pending{' as well' if points else ''}.")
    return lines


def _environments(result: SubmissionResult) -> list[str]:
    """The environment of each run, one line each."""
    lines = []
    for run in result.runs or [result.grader]:
        known = " · ".join(f"{name} {value}" for name, value in run.environment.items())
        lines += [f"{run.device}: {known}"] if known else []
    return lines
