"""The command that pushes grades to Canvas."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from grader.base import files, interrupts
from grader.base.errors import UsageError
from grader.classroom import (
    canvas_api,
    canvas_csv,
    canvas_push,
    gradebook,
    spreadsheet_csv,
    status_texts,
)
from grader.classroom.canvas_api import CanvasApi, CanvasAssignment, CanvasPlace
from grader.classroom.canvas_push import Difference, Late, PushRules
from grader.classroom.class_records import Standing, State, called
from grader.classroom.gradebook import Gradebook
from grader.classroom.standings import Class
from grader.commands import progress_line
from grader.commands.class_commands import Book, RulesOption, course_and_rules
from grader.commands.report_options import reported
from grader.commands.shared_options import Folder, app, argument, note, one_of, option
from grader.course import late_policy
from grader.course.late_policy import Policy
from grader.course.problems_toml import WEB_ADDRESS
from grader.course.removable.canvas_rules import CanvasRules
from grader.report import comment_report
from grader.report.formats import FORMATS
from grader.report.shared_wording import number
from grader.report.terminal_report import printed
from kit.safe_text import counted, one_line


@app.command()
def push(
    where: Annotated[str, argument("canvas")],
    book: Book,
    assignment: Annotated[str, option("--assignment URL")] = "",
    apply: Annotated[bool, option("--apply")] = False,
    token_file: Annotated[Path | None, option("--token-file FILE")] = None,
    link: Annotated[str, option("--link URL")] = "",
    no_comments: Annotated[bool, option("--no-comments")] = False,
    late: Annotated[str, option("--late")] = "",
    overwrite: Annotated[bool, option("--overwrite")] = False,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Show how the grades in Canvas differ from ours; with --apply, push ours, with a comment.

    Run it again after an interruption: what Canvas has already is not sent again.

    Args:
        where: The system to push to: canvas.
        assignment: The assignment's address, as the browser shows it (default: canvas_url of the
            policy).
        apply: Push; without it, only show the difference.
        token_file: The access token, in a file of mode 600 (default: $CANVAS_TOKEN).
        link: Where the pages of `export --html` are published: a comment then has a link instead of
            the report's text.
        no_comments: Push the points only.
        late: If Canvas' late policy takes points, too: ours (Canvas is told that these students are
            not late) or both (both penalties count).
        overwrite: Replace points that were changed in Canvas since.
    """
    one_of("push", where, "canvas")
    penalty: Late = one_of("--late", late, "ours", "both") if late else ""
    if link and (no_comments or not WEB_ADDRESS.fullmatch(link)):
        raise UsageError(f"--link {one_line(link, 200)}: expected an address, and comments")
    course, rules = course_and_rules(course_folder, rules_file, book)
    opening = gradebook.writing if apply else gradebook.reading
    with ExitStack() as stack:
        opened = stack.enter_context(opening(book))
        whole = Class(opened, course, rules)
        own = (rules or late_policy.load(course.policy)).of(CanvasRules).canvas_url
        place = _place(assignment, whole.rules.of(CanvasRules), own)
        api = CanvasApi(place, canvas_api.read_token(token_file))
        standings = whole.standings()
        push_rules = PushRules(
            comments={} if no_comments else _comments(whole, standings, link),
            penalises=whole.rules.per_cent_a_day > 0,
            late=penalty,
            overwrite=overwrite,
        )
        _push(api, opened, standings, whole.rules, push_rules, apply=apply)


def _place(assignment: str, rules: CanvasRules, own: str) -> CanvasPlace:
    """The assignment that the option or the policy names.

    The policy may be the gradebook's. Whoever made that file must not choose where the token goes,
    so its address has to be the `own` one, of a policy that is no gradebook's.
    """
    if not assignment and rules.canvas_url not in ("", own):
        raise UsageError(
            f"push: the gradebook names the assignment {one_line(rules.canvas_url, 300)}: to send "
            "your token there, give this address as --assignment, or the policy as --policy"
        )
    address = assignment or rules.canvas_url
    if not address:
        raise UsageError(
            "push: expected the assignment's address, from --assignment or canvas_url in the policy"
        )
    place = canvas_api.place_of(address)
    if rules.canvas_id not in (0, place.assignment):
        raise UsageError(
            f"push: {place} is not the assignment {rules.canvas_id} that the policy's canvas_id "
            "names"
        )
    return place


def _comments(whole: Class, standings: list[Standing], link: str) -> Mapping[str, str]:
    """The comment on the submission of each student who has a grade, or was refused."""
    found = {}
    for one in standings:
        interrupts.stop_if_seen()
        is_told = one.points is not None or one.state is State.REFUSED
        result = whole.reportable(one) if is_told else None
        if result is None:
            continue
        report = reported(whole.course, whole.rules, result, one)
        if link:
            page = f"{link.rstrip('/')}/{gradebook.file_name(one.student.id)}.html"
            lines = comment_report.safe(comment_report.summary(report))
            found[one.student.id] = f"{lines}\nReport: {page}"
        else:
            found[one.student.id] = FORMATS["comment"].render(report)
    return found


def _push(
    api: CanvasApi,
    book: Gradebook,
    standings: list[Standing],
    policy: Policy,
    rules: PushRules,
    *,
    apply: bool,
) -> None:
    """Show the difference, push it if asked to, and say what is left."""
    course, assignment = api.course(), api.assignment()
    canvas_push.require_gradable(course, assignment)
    most = max((one.max_score for one in standings), default=0.0)
    files.say(_title(api, course.name, assignment, most), needed=False)
    standings = canvas_csv.for_canvas(standings, policy, assignment.points_possible)
    rules = replace(rules, deducts=api.deducts_for_lateness())

    def compare() -> Difference:
        pushed = book.pushes.of(str(api.place))
        return canvas_push.difference(standings, api.submissions(), pushed, rules, now())

    found = compare()
    files.say(_table(found), needed=False)
    for one in found.notes:
        note(one)
    if not apply:
        files.say("nothing was pushed; --apply pushes this\n" * bool(found.changes), needed=False)
        return
    files.kept.append(book.path)
    with progress_line.advancing("pushing") as advance:
        left, complaint = canvas_push.push(api, book, found, compare, advance)
    _say_outcome(found, left, complaint)


def _say_outcome(found: Difference, left: Difference, complaint: str) -> None:
    remaining = {one.user for one in left.changes}
    done = [one for one in found.changes if one.user not in remaining]
    grades, comments = sum(one.grade for one in done), sum(bool(one.comment) for one in done)
    files.say(
        f"pushed {counted(grades, 'grade')} and {counted(comments, 'comment')}\n", needed=False
    )
    if not left.changes:
        return
    who = ", ".join(called(one.student) for one in left.changes[: status_texts.SHOWN])
    if not any(one.fields for one in left.changes):
        why = "Canvas may still be at work on them: run the same command again in 15 minutes"
    else:
        why = f"{complaint or 'Canvas did not take them'}; run the same command again"
    are = counted(len(left.changes), "student is", "students are")
    note(f"{are} not complete ({who}): {why}")
    raise typer.Exit(3)


def now() -> datetime:
    return datetime.now(UTC)


def _title(api: CanvasApi, course: str, assignment: CanvasAssignment, most: float) -> str:
    of = assignment.points_possible
    lines = [f"{api.place}: {course}, {assignment.name}"]
    if of is not None and abs(of - most) > spreadsheet_csv.SMALL:
        lines.append(
            f"Canvas' assignment is out of {number(of)} points, ours out of {number(most)}"
        )
    if assignment.post_manually:
        lines.append("Canvas hides grades and comments of this assignment until you post them")
    return "".join(f"{one_line(line, 300)}\n" for line in lines)


def _table(found: Difference) -> str:
    table = Table(box=None, pad_edge=False)
    for name in ("student", "Canvas", "ours", "comment"):
        table.add_column(name, overflow="fold")
    for one in found.changes:
        comment = "yes" if one.comment else "on its way" if one.waits else "no"
        before = "" if one.before is None else number(one.before)
        points = State.REFUSED.words if one.points is None else number(one.points)
        ours = points + (", not late" if one.exempt else "")
        table.add_row(Text(called(one.student)), before, ours, comment)
    differ = counted(len(found.changes), "student differs", "students differ")
    last = f"{differ}, {found.same} do not"
    return printed(*([table] if found.changes else []), last, wide=status_texts.WIDE)
