"""The report for teaching assistants: a table of problems, the costliest failures, and the total.

The report fits into 80 columns and uses a wider terminal fully. Colour appears only on a terminal.
Untrusted text is printed literally, never as markup.
"""

import io

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from grader.base.errors import Status
from grader.report.lost_points import Reason
from grader.report.report_contents import RemainingStubs, Reported
from grader.report.shared_wording import in_column
from grader.results.result_records import ProblemResult
from kit.safe_text import counted

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


def render(reported: Reported) -> str:
    """The report as text, with the width and colours of the terminal.

    Without a terminal, the report is plain text of 80 columns. Unless it is verbose, it shows the
    costliest reasons of each problem, in about 60 lines.
    """
    console = reported.console
    if console is None or not console.is_terminal:
        file = io.StringIO()
        console = Console(
            file=file, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False
        )
    with console.capture() as capture:
        console.print(_report(reported, console))
    if console.is_terminal:
        return capture.get()
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())


def printed(*parts: RenderableType, wide: int) -> str:
    """What a terminal would show of some parts or, without one, lines of this many columns."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = wide
    with console.capture() as text:
        for part in parts:
            console.print(part)
    return "".join(line.rstrip() + "\n" for line in text.get().splitlines())


def _report(reported: Reported, console: Console) -> RenderableType:
    head = Rule(Text(reported.result.submission.name), characters="─", style="dim")
    above: list[RenderableType] = [head, _table(reported), Text()]
    below = [
        *map(Text, reported.measured),
        *([Text()] if reported.measured else []),
        *_not_attempted(reported.not_attempted),
        *_notes(reported),
        _foot(reported),
    ]
    left = MAX_LINES - sum(_lines(part, console) for part in [*above, *below]) - LINES_FOR_MORE
    shown = _shown(reported, left, console)
    hidden = [reason for reason in reported.reasons if reason not in shown]
    blocks = [_reason(reason, reported) for reason in shown]
    return Group(*above, *blocks, *_more(hidden), *below)


def _shown(reported: Reported, left: int, console: Console) -> list[Reason]:
    """The reasons that fit into these lines, the costliest of each problem before any second."""
    firsts = {reason.problem.id: reason for reason in reversed(reported.reasons)}.values()
    by_problem = sorted(reported.reasons, key=lambda reason: reason not in firsts)
    shown: list[Reason] = []
    for reason in by_problem:
        lines = _lines(_reason(reason, reported), console)
        if not reported.verbose and len(shown) >= LEAST_REASONS and left < lines:
            break
        left -= lines
        shown.append(reason)
    return [reason for reason in reported.reasons if reason in shown]


def _lines(part: RenderableType, console: Console) -> int:
    return len(console.render_lines(part, pad=False))


def _more(reasons: list[Reason]) -> list[RenderableType]:
    if not reasons:
        return []
    points = sum(reason.points for reason in reasons)
    problems = ", ".join(dict.fromkeys(reason.problem.id for reason in reasons))
    count = counted(len(reasons), "more reason")
    text = f"{count}, {points:.2f} points, in {problems}: the grader's --verbose shows all"
    return [Text(text), Text()]


def _table(reported: Reported) -> Table:
    """One row per problem; if many problems have not been begun, these share one row."""
    result = reported.result
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("problem", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR)
    table.add_column("tests", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    untouched = [p for p in result.problems if p.status is Status.NOT_ATTEMPTED and not p.passed]
    if reported.verbose or len(untouched) <= MAX_UNTOUCHED:
        untouched = []
    for problem in result.problems:
        if problem not in untouched:
            _add_row(table, problem.id, [problem])
    if untouched:
        _add_row(table, counted(len(untouched), "other"), untouched)
    total = f"{result.score:.2f} / {in_column(result.max_score)}"
    table.add_row(Text("total", style="bold"), Text(total, style="bold"), "", "", "")
    return table


def _add_row(table: Table, name: str, problems: list[ProblemResult]) -> None:
    """Add a row with the total of some problems, which have the same status."""
    score, of = sum(p.score for p in problems), sum(p.max_score for p in problems)
    status = problems[0].status
    filled = int(BAR * score / of) if of else 0
    bar = Text("█" * filled, style=STYLES[Status.PASSED]) + Text("·" * (BAR - filled), style="dim")
    tests = f"{sum(p.passed for p in problems)}/{sum(len(p.counted) for p in problems)}"
    shown = Text(status.value, style=STYLES[status])
    table.add_row(Text(name), f"{score:.2f} / {in_column(of)}", bar, tests, shown)


def _notes(reported: Reported) -> list[RenderableType]:
    texts = [Text(note.text, style="bold") for note in reported.notes]
    return [*texts, Text()] if texts else []


def _not_attempted(missing: RemainingStubs) -> list[RenderableType]:
    if not missing.names:
        return []
    text = f"not attempted, {missing.points:.2f} points: {', '.join(missing.names)}"
    return [Text(text, style=STYLES[Status.NOT_ATTEMPTED]), Text()]


def _reason(reason: Reason, reported: Reported) -> RenderableType:
    """What went wrong, the likely mistake, the broken rules, and the cost."""
    first, rules = reason.first, reason.rules
    parts: list[RenderableType] = [Text(reason.head, style=STYLES[first.status])]
    parts += [_labelled(fact.label, fact.text) for fact in first.facts]
    if first.mistake:
        parts.append(_labelled("looks like", first.mistake))
    place = _place(reason.problem.id, reported)
    if first.hint and not reason.is_ours:
        parts.append(_labelled("hint", Text(f"{first.hint}  ").append_text(place)))
    if rules:
        shown = rules if reported.verbose else rules[:MAX_RULES]
        more = f"\n… and {len(rules) - len(shown)} more" if len(shown) < len(rules) else ""
        parts.append(_labelled("rule" if len(rules) == 1 else "rules", "\n".join(shown) + more))
    if place and not first.hint and not reason.is_ours:
        parts.append(_labelled("see", place))
    parts.append(_labelled("lost", _lost(reason, reported.verbose)))
    return Group(*parts, Text())


def _place(problem: str, reported: Reported) -> Text:
    """The section of the handout, if there is one; a link if its address is known."""
    section, link = reported.sections.get(problem, ""), reported.links.get(problem)
    return Text(section and f"handout §{section}", style=Style(link=link))


def _lost(reason: Reason, verbose: bool) -> str:
    """The points that a reason cost, and the tests that cost them."""
    tests = reason.tests
    named = verbose or len(tests) == 1
    names = ", ".join(test.id for test in tests) if named else reason.share
    if reason.is_ours:
        return f"nothing: a fault of ours costs no point ({names})"
    if not reason.points:
        return f"nothing yet: a run on a GPU decides ({names})"
    return f"{reason.points:.2f} points in {names}"


def _labelled(label: str, text: str | Text) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=10, style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text) if isinstance(text, str) else text)
    return Padding(grid, (0, 0, 0, 2))


def _foot(reported: Reported) -> RenderableType:
    result, grader = reported.result, reported.result.grader
    warning = "  (NOT ISOLATED: for debugging only)" if grader.isolation == "none" else ""
    failed = "The grader failed: this score is not final. The fault is ours, see above."
    score = f"score {result.score:.2f} of {in_column(result.max_score)}"
    small = [
        f"isolation {grader.isolation}{warning} · device {grader.device} · seed {grader.seed}",
        f"sources {result.submission.sha256[:12]} · suite {grader.suite_sha256[:12]} "
        f"· grader {grader.version}",
        *reported.environments,
    ]
    return Group(
        Rule(characters="─", style="dim"),
        *([Text(failed, style="bold red")] if result.has_grader_error else []),
        *(
            Text(line, style=STYLES[Status.DEFERRED])
            for line in [*reported.pending, *reported.names]
        ),
        Text(f"{score}   in {result.seconds:.1f} s", style="bold"),
        *(Text(line, style="dim") for line in small),
        *_ignored(reported),
    )


def _ignored(reported: Reported) -> list[RenderableType]:
    lines = [f"{reason}: {', '.join(names)}" for reason, names in reported.ignored.items()]
    indented = [Padding(Text(line), (0, 0, 0, 2)) for line in lines]
    return [Text("not graded:"), *indented] if lines else []
