"""The texts that the commands for a class print: its status, one student, a regrade's changes."""

from collections import Counter
from pathlib import Path

from rich.table import Table
from rich.text import Text

from grader.classroom import setups
from grader.classroom.class_records import Standing, State, called
from grader.classroom.gradescope_comparison import ScoreDifference
from grader.classroom.setups import Setup
from grader.classroom.standings import Class, why_it_counts
from grader.classroom.switching_setups import Comparison, GradeChange
from grader.course.late_policy import Policy
from grader.report.gradebook_notes import Override, RegradeRequest
from grader.report.terminal_report import printed
from kit import handing_in
from kit.safe_text import counted, first, one_line

ORDER = (State.GRADER_ERROR, State.REFUSED, State.NOT_GRADED, State.MISSING, State.GRADED)
SHOWN = 40  # the most students or tests in a list without --verbose
WIDE = 200  # the width if stdout is not a terminal, so that lines stay whole


def status(whole: Class, *, verbose: bool) -> str:
    """Counts of the class, who needs attention or everyone, and the open regrade requests."""
    found, book = whole.standings(), whole.book
    lines = [_counts(found)]
    lines += [
        f"a run with --device {device} is under way, with results of "
        f"{counted(count, 'submission')}; until each student has one, the results of the other "
        "device count"
        for device, count in book.setups.under_way().items()
    ]
    lines += [_unfinished(whole, old, new, done) for old, new, done in book.setups.unfinished()]
    lines += [*_notes_on_deadlines(whole.rules, found), *_note_on_late_days(whole)]
    lines += [*_note_on_removed(whole), *_notes_on_names(whole, found)]
    listed = [one for one in found if verbose or one.state is not State.GRADED or one.why]
    listed.sort(key=lambda one: (ORDER.index(one.state), one.student.id))
    shown = listed if verbose else listed[:SHOWN]
    left = len(listed) - len(shown)
    more = [f"and {left} more; --verbose lists all"] if left else []
    below = [*more, *_requests(book.feedback.requests(), verbose=verbose)]
    table = [_table(shown)] if shown else []
    return printed(*map(Text, lines), *table, *map(Text, below), wide=WIDE)


def _unfinished(whole: Class, old: int, new: int, count: str) -> str:
    setup = whole.book.setups.get
    changed = "; ".join(setups.differences(setup(old), setup(new), then="then"))
    return (
        f"a regrade has graded {count} submissions so far ({changed}); the old results "
        "count, and the same `grader regrade` command goes on"
    )


def _requests(found: list[RegradeRequest], *, verbose: bool) -> list[str]:
    waiting = [one for one in found if one.answer is None]
    if not found:
        return []
    listed = found if verbose else waiting[:SHOWN]
    lines = [f"regrade requests: {len(waiting)} open, {len(found) - len(waiting)} answered"]
    lines += [
        f"  {one.id}  {one.student}, attempt {one.attempt}: {one.problem}, {one.test} "
        f"({one.evidence}): {one.text}" + (f"  {one.answer.word}" if one.answer else "")
        for one in listed
    ]
    if not verbose and len(waiting) > SHOWN:
        lines.append(f"  and {len(waiting) - SHOWN} more open ones; --verbose lists all")
    return [one_line(line, 400) for line in lines]


def _notes_on_names(whole: Class, found: list[Standing]) -> list[str]:
    """Who may have handed in a solution under another name, in the attempt that counts."""
    counting = {(one.student.id, one.attempt): one for one in found}
    numbers = whole.book.attempts.numbers()
    notes = [
        one_line(f"{called(standing.student)}: {one.path}: {one.reason}", 300)
        for attempt in whole.book.attempts.all()
        if (standing := counting.get((attempt.student, numbers[attempt.id])))
        for one in attempt.ignored
        if handing_in.MEANT in one.reason
    ]
    more = [f"and {len(notes) - SHOWN} more such files"] if len(notes) > SHOWN else []
    return [*notes[:SHOWN], *more]


def _counts(found: list[Standing]) -> str:
    numbers = Counter(one.state for one in found)
    parts = [f"{numbers[state]} {state.words}" for state in State if numbers[state]]
    points = [one.points for one in found if one.points is not None]
    mean = f"; mean {sum(points) / len(points):.2f}" if points else ""
    late = sum(one.days_late > 0 for one in found)
    given = sum(bool(one.overrides) for one in found)
    by_hand = f"; {given} with points by hand" if given else ""
    states = f"{counted(len(found), 'student')}: {', '.join(parts) or 'none'}"
    return f"{states}{mean}; {late} late{by_hand}"


def _notes_on_deadlines(rules: Policy, found: list[Standing]) -> list[str]:
    if not rules.deadlines:
        return ["no deadline is known, so nobody is late: `grader batch --policy FILE` sets one"]
    sections = {one.student.section for one in found}
    without = sorted(one for one in sections if rules.deadline(one, None) is None)
    unused = sorted(rules.deadlines.keys() - sections - {"default"})
    notes = [f"no deadline for section {one or '(none)'}: nobody in it is late" for one in without]
    notes += [f"there is a deadline for section {one}, which has no students" for one in unused]
    return [one_line(note, 200) for note in notes]


def _note_on_late_days(whole: Class) -> list[str]:
    known = {one.id for one in whole.book.students.all(removed=True)}
    unknown = sorted(whole.rules.late_days_used.keys() - known)
    if not unknown:
        return []
    return [
        f"{whole.rules.late_days_file} has late days of {first(unknown, SHOWN)}, and no "
        "student here has this id; if it is another id of one, use `grader rename-student`"
    ]


def _note_on_removed(whole: Class) -> list[str]:
    removed = whole.book.students.entries.removed
    gone = [called(one) for one in whole.book.students.all(removed=True) if one.id in removed]
    if not gone:
        return []
    how = "`grader remove-student STUDENT --undo` brings one back"
    return [f"removed and not counted: {first(gone, SHOWN)}; {how}"]


def _table(listed: list[Standing]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("student", "section", "state", "points", "attempt", "late", "note"):
        table.add_column(name, overflow="fold")
    for one in listed:
        cells = (
            f"{one.student.id} {one.student.name}".strip(),
            one.student.section,
            one.state.words,
            "" if one.points is None else f"{one.points:.2f}",
            f"{one.attempt} of {one.attempts}" if one.attempts else "",
            f"{one.days_late} d, -{one.penalty:g} %" if one.days_late else "",
            "; ".join([*filter(None, [one.why]), *map(_by_hand, one.overrides)]),
        )
        table.add_row(*(Text(one_line(cell, 200)) for cell in cells))
    return table


def _by_hand(override: Override) -> str:
    about = f" for {override.problem}" if override.problem else ""
    return f"{override.points:g} by hand{about}"


def student(whole: Class, standing: Standing) -> str:
    """A student's grade, attempts and history."""
    book, who = whole.book, standing.student.id
    lines = [grade(standing), *_times(whole.rules, standing)]
    entries = book.students.entries.of(who)[1:]
    if entries:
        lines.append(f"  also known as {', '.join(entries)}")
    grades = [book.results.grades(setup) for setup in book.results.counting()]
    for number, attempt in enumerate(book.attempts.all(who), start=1):
        mark = "counts" if number == standing.attempt else ""
        score = next((g[attempt.sources or ""].score for g in grades if attempt.sources in g), None)
        when = attempt.submitted_at
        at = whole.rules.local(when).isoformat() if when else "no time"
        said = attempt.refused or ("not graded" if score is None else f"{score:.2f}")
        lines.append(f"  attempt {number}  {at}  {attempt.name}  {said}  {mark}".rstrip())
    lines += [f"  {line}" for line in book.decisions.history(who)]
    return "".join(f"{one_line(line, 500)}\n" for line in lines)


def _times(rules: Policy, standing: Standing) -> list[str]:
    lines = []
    if standing.deadline:
        due = rules.local(standing.deadline).isoformat(timespec="minutes")
        lines.append(f"  deadline  {due}")
    if rules.late_days:
        elsewhere = rules.late_days_used.get(standing.student.id, 0)
        other = f", and {elsewhere} in other assignments" if elsewhere else ""
        lines.append(f"  late days  {standing.free_days} of {rules.late_days} used{other}")
    if why := why_it_counts(standing, rules):
        lines.append(f"  attempt {standing.attempt} counts: {why}")
    return lines


def grade(standing: Standing) -> str:
    """A student's grade and how it was determined, in one line."""
    who = f"{standing.student.id} {standing.student.name}".strip()
    if standing.points is None:
        return f"{who}: {standing.state.words}; {standing.why}".rstrip("; ")
    text = f"{who}: {standing.points:.2f} of {standing.max_score:g}"
    if standing.days_late:
        days = counted(standing.days_late, "day")
        text += f"; {days} late, which costs {standing.penalty:g} %"
    for one in standing.overrides:
        about = f" for {one.problem}" if one.problem else ""
        text += f"; {one.points:g}{about} by {one.who}: {one.reason}"
    return text


def grade_and_deadline(rules: Policy, standing: Standing) -> list[str]:
    deadline = standing.deadline
    due = rules.local(deadline).isoformat() if deadline else "no deadline applies"
    return [grade(standing), f"deadline: {due}"]


def changed(before: list[str], after: list[str]) -> list[str]:
    """The lines that differ, with what they were; the first line names the student."""
    if before == after:
        return [f"  {after[0]}: nothing changes"]
    pairs = zip(before, after, strict=True)
    found = [line for was, now in pairs if was != now for line in (f"- {was}", f"+ {now}")]
    return found if before[0] != after[0] else [f"  {after[0]}", *found]


def compared(found: list[ScoreDifference], students: int) -> str:
    """The students whose points differ between Gradescope and the gradebook."""
    rows = counted(students, "row")
    some = counted(len(found), "difference")
    lines = [f"{rows} of Gradescope's file; {some}"]
    width = max((len(one.student) for one in found), default=0)
    for one in found:
        why = f"  {one.why}" if one.why else ""
        theirs, ours = ("none" if it is None else f"{it:.2f}" for it in (one.theirs, one.ours))
        lines.append(f"  {one.student:<{width}}  Gradescope {theirs:>7}  ours {ours:>7}{why}")
    return "".join(f"{line}\n" for line in lines)


def changes(book: Path, found: Comparison, old: Setup, new: Setup, *, verbose: bool) -> str:
    """Which students gain or lose points between two setups' results."""
    lines = [f"changed: {line}" for line in setups.differences(old, new)]
    gain = sum(change.points > 0 for change in found.changes)
    lose = sum(change.points < 0 for change in found.changes)
    lines.append(
        f"{counted(found.students, 'student')}: {gain} gain, {lose} lose, "
        f"{len(found.changes) - gain - lose} change otherwise; "
        f"points of the class before {found.before:.2f}, after {found.after:.2f}"
    )
    if found.left:
        have = counted(found.left, "more student has", "more students have")
        lines.append(f"{have} no new result yet: run regrade again")
    limit = None if verbose else SHOWN
    for (test, way), number in found.tests.most_common(limit):
        lines.append(f"  {test}: {number} {way} points")
    for change in found.changes[:limit]:
        lines.append(_change(change))
        lines += [f"      {text}" for text in change.tests[:limit]]
    if limit and len(found.changes) > limit:
        more = len(found.changes) - limit
        lines.append(f"and {more} more; `grader diff {book} --verbose` lists all")
    return "".join(f"{one_line(line, 300)}\n" for line in lines)


def _change(change: GradeChange) -> str:
    def points(one: Standing) -> str:
        return one.state.words if one.points is None else f"{one.points:.2f}"

    return (
        f"  {change.before.student.id}: {points(change.before)}, then {points(change.after)} "
        f"({change.points:+.2f})"
    )
