"""The report for teaching assistants: a table of problems, the costliest failures, and the total.

The report fits into 80 columns and uses a wider terminal fully. Colour appears only on a terminal.
Untrusted text is printed literally, never as markup.
"""

import io
from collections.abc import Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from grader.base.errors import Status
from grader.report.reasons import (
    Reason,
    as_points,
    by_reason,
    counted,
    environments,
    not_attempted,
    pending,
    reasons_in,
)
from grader.results.records import ProblemResult, SubmissionResult

WIDTH = 80
BAR = 16
MAX_LINES = 60  # of a report that is not verbose
LINES_FOR_MORE = 4  # lines about omitted reasons
LEAST_REASONS = 3  # reasons that are always shown, however many lines they take
MAX_RULES = 3  # rules per reason
# Up to this many unattempted problems have a row each; more than that share one row.
MAX_UNTOUCHED = 3
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
    sections: Mapping[str, str],
    links: Mapping[str, str] | None = None,
    verbose: bool = False,
    console: Console | None = None,
) -> str:
    """The report as text, with the width and colours of the terminal.

    Without a terminal, the report is plain text of 80 columns.

    Args:
        result: What to report.
        sections: For each problem's id, the section of the handout.
        links: For each problem's id, the address of that section; terminals that support links show
            the section as one.
        verbose: Show every reason with all details. Otherwise show the costliest reasons, in about
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
        console.print(_report(result, sections, links or {}, console, verbose))
    if console.is_terminal:
        return capture.get()
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())


def _report(
    result: SubmissionResult,
    sections: Mapping[str, str],
    links: Mapping[str, str],
    console: Console,
    verbose: bool,
) -> RenderableType:
    around = [
        _head(result),
        _table(result, verbose),
        Text(),
        *_not_attempted(result),
        _foot(result),
    ]
    blocks = [
        _reason(reason, _place(reason.problem.id, sections, links), verbose)
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
    total = f"{result.score:.2f} / {as_points(result.max_score)}"
    table.add_row(Text("total", style="bold"), Text(total, style="bold"), "", "", "")
    return table


def _add_row(table: Table, name: str, problems: list[ProblemResult]) -> None:
    """Add a row with the total of some problems, which have the same status."""
    score, of = sum(p.score for p in problems), sum(p.max_score for p in problems)
    status = problems[0].status
    filled = int(BAR * score / of) if of else 0
    bar = Text("█" * filled, style=STYLES[status]) + Text("·" * (BAR - filled), style="dim")
    tests = f"{_passed(problems)}/{sum(len(counted(p)) for p in problems)}"
    table.add_row(
        Text(name),
        f"{score:.2f} / {as_points(of)}",
        bar,
        tests,
        Text(status.value, style=STYLES[status]),
    )


def _passed(problems: list[ProblemResult]) -> int:
    return sum(test.status is Status.PASSED for problem in problems for test in counted(problem))


def _not_attempted(result: SubmissionResult) -> list[RenderableType]:
    """One paragraph about remaining stubs."""
    missing = not_attempted(result)
    if not missing.names:
        return []
    text = f"not attempted, {missing.points:.2f} points: {', '.join(missing.names)}"
    return [Text(text, style=STYLES[Status.NOT_ATTEMPTED]), Text()]


def _place(problem: str, sections: Mapping[str, str], links: Mapping[str, str]) -> Text:
    """The section of the handout, which is a link if its address is known."""
    link = links.get(problem)
    return Text(f"handout §{sections.get(problem, '')}", style=Style(link=link))


def _reason(reason: Reason, place: Text, verbose: bool) -> RenderableType:
    """What went wrong, the likely mistake, the broken rules, and the cost."""
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
        parts.append(_labelled("hint" if hint else "see", Text(hint) + place))
    parts.append(_labelled("lost", _lost(reason, verbose)))
    return Group(*parts, Text())


def _lost(reason: Reason, verbose: bool) -> str:
    """The points that a reason cost, and the tests that cost them."""
    tests = reason.tests
    names = f"{len(tests)} of {len(counted(reason.problem))} tests"
    names = ", ".join(test.id for test in tests) if verbose or len(tests) == 1 else names
    if reason.is_ours:
        return f"nothing: a fault of ours costs no point ({names})"
    return (
        f"{reason.points:.2f} points in {names}"
        if reason.points
        else f"nothing yet: a run on a GPU decides ({names})"
    )


def _labelled(label: str, text: str | Text) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=10, style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text) if isinstance(text, str) else text)
    return Padding(grid, (0, 0, 0, 2))


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
    rows += [Text(line, style=STYLES[Status.DEFERRED]) for line in pending(result)]
    rows.append(
        Text(
            f"score {result.score:.2f} of {as_points(result.max_score)}"
            f"   in {result.seconds:.1f} s",
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
    rows += [Text(line, style="dim") for line in environments(result)]
    if result.submission.ignored:
        rows.append(Text("not graded:"))
        reasons = by_reason(result.submission.ignored)
        rows += [
            Padding(Text(f"{reason}: {', '.join(names)}"), (0, 0, 0, 2))
            for reason, names in reasons.items()
        ]
    return Group(*rows)
