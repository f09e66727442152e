"""The commands for a whole class; they join those of commands.py, and end in the same way."""

import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader import course as courses
from grader import files, interrupts
from grader.classroom import batch as batches
from grader.classroom import compare as comparisons
from grader.classroom import display, gradebook, intake, policy, roster, tables
from grader.classroom import setup as setups
from grader.classroom import standings as classes
from grader.classroom.gradebook import Gradebook
from grader.classroom.policy import Policy
from grader.classroom.records import Standing, State
from grader.classroom.setup import Setup
from grader.commands import Device, Folder, Only, Seed, chosen, device_named, one_of
from grader.commands import app as app
from grader.course import Course
from grader.errors import GraderFault, UsageError
from grader.grading.workers import usual_jobs
from grader.printable import one_line
from grader.report import gradescope, junit, markdown, terminal
from grader.results.records import SubmissionResult
from grader.sandbox.box import Isolation

Book = Annotated[
    Path, typer.Argument(metavar="GRADEBOOK", help="The gradebook that `grader batch` wrote.")
]
Who = Annotated[str, typer.Option("--by", help="Who decided this (default: your user name).")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Number of processes (default: one per processor)."),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Give each test a process of its own; slower, same scores.")
]
Rules = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Deadlines and lateness (default: the course's policy.toml).",
    ),
]
# What needs a person first.
ORDER = (State.GRADER_ERROR, State.REFUSED, State.NOT_GRADED, State.MISSING, State.GRADED)
SHOWN = 40  # students or tests of a list, unless --verbose asks for all


def _course_and_rules(folder: Path | None, rules_file: Path | None) -> tuple[Course, Policy]:
    """The course, and the rules in a file that --policy names or in the course's own."""
    course = courses.load(folder)
    return course, policy.load(rules_file or course.policy, needed=rules_file is not None)


# --- grading --------------------------------------------------------------------------------------


@app.command()
def batch(
    folder: Annotated[
        Path, typer.Argument(help="The folder with one file or folder per submission.")
    ],
    book: Annotated[
        Path, typer.Option("--gradebook", metavar="FILE", help="The gradebook (SQLite).")
    ],
    listed: Annotated[
        Path | None,
        typer.Option("--roster", metavar="FILE.csv", help="Students: id, name, e-mail, section."),
    ] = None,
    jobs: Jobs = None,
    only: Only = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Grade at most so many this time.")
    ] = None,
    fresh: Fresh = False,
    device: Device = "cpu",
    seed: Seed = 0,
    isolation: Annotated[
        str, typer.Option("--isolation", help="bubblewrap; or none, to debug, never for grades.")
    ] = "bubblewrap",
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Grade a class: every submission in a folder that has no result in the gradebook yet.

    Call it again after an interruption, or when more was handed in: what was graded stays.
    Gradescope's and Canvas' downloads are recognised. Exits 3 if the grader failed on a submission.
    """
    course, rules = _course_and_rules(course_folder, rules_file)
    problems = chosen(course, only)
    one_of("--device", device, "cpu", "cuda")
    level: Isolation = one_of("--isolation", isolation, *get_args(Isolation))
    found = intake.recognise(folder)
    students = roster.read(listed) if listed else None
    today = setups.of_today(course, problems, device=device, isolation=level, seed=seed)
    with gradebook.writing(book, create=True) as opened:
        setup = _setup_of(opened, today)
        if students is None and opened.has_roster:
            students = [student for student in opened.students() if student.listed]
        assigned = roster.assign(found.handed_in, students)
        opened.enrol(
            [*assigned.missing, *(student for student, _ in assigned.attempts)],
            roster=students is not None,
        )
        with display.reading() as show:
            new = batches.add(opened, assigned.attempts, show)
        for note in found.notes:
            print(f"grader: {note}", file=sys.stderr)
        print(
            f"{len(assigned.attempts)} submissions of {len(opened.students())} students, "
            f"{new} of them new; {len(opened.to_grade(setup))} to grade",
            file=sys.stderr,
        )
        _grade(course, opened, setup, jobs=jobs, fresh=fresh, limit=limit)
        _say_status(opened, rules, course, verbose=False)
        if _any_fault(opened, setup):
            raise typer.Exit(3)


def _setup_of(book: Gradebook, today: Setup) -> int:
    """The number of today's setup; the first setup of a gradebook counts from the start.

    Raises:
        UsageError: The gradebook was graded with another setup.
    """
    current = book.current(today.device)
    setup = book.number_of(today)
    if current is None:
        book.apply(setup, why="batch")
    elif setup != current:
        changed = "; ".join(setups.differences(book.setup(current), today))
        raise UsageError(
            f"{book.path} was graded with another setup ({changed}): "
            f"`grader regrade {book.path}` shows what would change, and --apply lets it count"
        )
    return setup


def _grade(
    course: Course,
    book: Gradebook,
    setup: int,
    *,
    jobs: int | None,
    fresh: bool,
    limit: int | None = None,
) -> None:
    """Grade what is left, and say what it took."""
    started = time.monotonic()
    with device_named(book.setup(setup).device) as gpu:
        files.kept.append(book.path)
        with display.display() as show:
            progress = batches.grade(
                course,
                book,
                setup,
                jobs=jobs or usual_jobs(),
                gpu=gpu,
                fresh=fresh,
                limit=limit,
                show=show,
            )
    if progress.total:
        took = display.duration(time.monotonic() - started)
        print(f"graded {progress.done} submissions in {took}", file=sys.stderr)


def _any_fault(book: Gradebook, setup: int) -> bool:
    return any(grade.fault for grade in book.grades(setup, problems=False).values())


# --- looking --------------------------------------------------------------------------------------


@app.command()
def status(
    book: Book,
    verbose: Annotated[bool, typer.Option("--verbose", help="List every student.")] = False,
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Count where the class stands, and list who needs a person."""
    course, rules = _course_and_rules(course_folder, rules_file)
    with gradebook.reading(book) as opened:
        _say_status(opened, rules, course, verbose=verbose)


def _say_status(book: Gradebook, rules: Policy, course: Course, *, verbose: bool) -> None:
    found = classes.standings(book, rules, _max_score(book, course), problems=False)
    counts = classes.counts(found)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # whoever reads a pipe wants whole lines
    with console.capture() as text:
        console.print(_counts_line(counts, found))
        for note in _notes_on_deadlines(rules, found):
            console.print(Text(note))
        listed = found if verbose else [one for one in found if _needs_a_person(one)]
        if listed:
            listed.sort(key=lambda one: (ORDER.index(one.state), one.student.id))
            console.print(_table(listed if verbose else listed[:SHOWN]))
        if not verbose and len(listed) > SHOWN:
            console.print(f"and {len(listed) - SHOWN} more; --verbose lists all")
    files.say(text.get(), needed=False)


def _counts_line(counts: dict[State, int], found: list[Standing]) -> str:
    parts = [f"{number} {state.words}" for state, number in counts.items() if number]
    points = [one.points for one in found if one.points is not None]
    mean = f"; mean {sum(points) / len(points):.2f}" if points else ""
    late = sum(one.days_late > 0 for one in found)
    return f"{len(found)} students: {', '.join(parts) or 'none'}{mean}; {late} late"


def _notes_on_deadlines(rules: Policy, found: list[Standing]) -> list[str]:
    """Sections that the policy overlooks, and deadlines that nobody has."""
    if not rules.deadlines:
        return []
    sections = {one.student.section for one in found}
    without = sorted(one for one in sections if rules.deadline(one, None) is None)
    unused = sorted(rules.deadlines.keys() - sections - {"default"})
    notes = [f"no deadline for section {one or '(none)'}: nobody in it is late" for one in without]
    notes += [f"a deadline for section {one}, which nobody is in" for one in unused]
    return [one_line(note, 200) for note in notes]


def _needs_a_person(standing: Standing) -> bool:
    return standing.state is not State.GRADED or bool(standing.why)


def _table(listed: list[Standing]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("student", "section", "state", "points", "attempt", "late", "note"):
        table.add_column(name, overflow="fold")
    for one in listed:
        table.add_row(
            *(
                Text(one_line(cell, 200))
                for cell in (
                    f"{one.student.id} {one.student.name}".strip(),
                    one.student.section,
                    one.state.words,
                    "" if one.points is None else f"{one.points:.2f}",
                    f"{one.attempt} of {one.attempts}" if one.attempts else "",
                    f"{one.days_late} d, -{one.penalty:g} %" if one.days_late else "",
                    one.why,
                )
            )
        )
    return table


@app.command()
def show(
    book: Book,
    student: str,
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Show one student: the attempts, what counts and why, and the report of what counts."""
    course, rules = _course_and_rules(course_folder, rules_file)
    with gradebook.reading(book) as opened:
        standing = _standing_of(opened, rules, course, student)
        lines = [_told(standing)]
        grades = [opened.grades(setup, problems=False) for setup in opened.counting()]
        for number, attempt in enumerate(opened.attempts(student), start=1):
            mark = "counts" if number == standing.attempt else ""
            score = next(
                (g[attempt.sources or ""].score for g in grades if attempt.sources in g), None
            )
            at = attempt.submitted_at.isoformat() if attempt.submitted_at else "no time"
            said = attempt.refused or ("not graded" if score is None else f"{score:.2f}")
            lines.append(f"  attempt {number}  {at}  {attempt.name}  {said}  {mark}".rstrip())
        lines += [f"  {line}" for line in opened.history(student)]
        files.say("".join(f"{one_line(line, 500)}\n" for line in lines))
        result = _result_of(opened, standing)
        if result is not None:
            sections = {p.id: p.section for p in course.problems}
            console = Console(highlight=False)
            files.say(terminal.render(result, sections=sections, verbose=False, console=console))


def _told(standing: Standing) -> str:
    """A student's grade and how it came about, in one line."""
    who = f"{standing.student.id} {standing.student.name}".strip()
    if standing.points is None:
        return f"{who}: {standing.state.words}; {standing.why}".rstrip("; ")
    text = f"{who}: {standing.points:.2f} of {standing.max_score:g}"
    if standing.days_late:
        text += f"; {standing.days_late} days late, which costs {standing.penalty:g} %"
    for one in standing.overrides:
        about = f" for {one.problem}" if one.problem else ""
        text += f"; {one.points:g}{about} by {one.who}: {one.reason}"
    return text


def _standing_of(book: Gradebook, rules: Policy, course: Course, student: str) -> Standing:
    """A student's standing.

    Raises:
        UsageError: The gradebook does not have the student.
    """
    for one in classes.standings(book, rules, _max_score(book, course), problems=False):
        if one.student.id == student:
            return one
    raise UsageError(f"{book.path} has no student {student}")


def _result_of(book: Gradebook, standing: Standing) -> SubmissionResult | None:
    """The whole result of the attempt that counts, under the name of that attempt."""
    result = book.first_result(standing.sources, book.counting())
    if result is None:
        return None
    # Another student may have handed in the same sources first.
    attempt = book.attempts(standing.student.id)[standing.attempt - 1]
    info = msgspec.structs.replace(result.submission, name=attempt.name, ignored=attempt.ignored)
    return msgspec.structs.replace(result, submission=info)


def _max_score(book: Gradebook, course: Course) -> float:
    """The points that the gradebook's runs can give together."""
    graded = {problem for setup in book.counting() for problem in book.setup(setup).problems}
    devices = {"cpu", "cuda"} if book.current("cuda") else {"cpu"}
    return float(sum(p.points for p in course.problems if p.id in graded and p.device in devices))


# --- deciding -------------------------------------------------------------------------------------


@app.command()
def override(
    book: Book,
    student: str,
    reason: Annotated[str, typer.Option("--reason", help="Why; the record keeps it.")],
    points: Annotated[
        float | None, typer.Option("--points", min=0, help="The points to give.")
    ] = None,
    problem: Annotated[
        str, typer.Option("--problem", help="Give them for this problem, not for the total.")
    ] = "",
    remove: Annotated[
        bool, typer.Option("--remove", help="Withdraw the points that were given.")
    ] = False,
    by: Who = "",
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Give a student points by hand; what the grader found stays."""
    if points is not None and not points < policy.MOST:
        raise UsageError(f"--points {points:g}: expected a number of points")
    if (points is None) != remove:
        raise UsageError("override: give either --points or --remove")
    course, rules = _course_and_rules(course_folder, rules_file)
    if problem:
        chosen(course, [problem])
    with gradebook.writing(book) as opened:
        _standing_of(opened, rules, course, student)
        opened.override(student, points, reason=reason, problem=problem, who=by)
        files.say(f"{_told(_standing_of(opened, rules, course, student))}\n", needed=False)


@app.command()
def extend(
    book: Book,
    student: str,
    until: Annotated[
        str, typer.Option("--until", help="The new deadline: 2026-10-05T23:59:00-07:00.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; the record keeps it.")],
    by: Who = "",
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Give a student a later deadline."""
    course, rules = _course_and_rules(course_folder, rules_file)
    time_limit: datetime = policy.when(until, what="--until")
    with gradebook.writing(book) as opened:
        _standing_of(opened, rules, course, student)
        opened.extend(student, time_limit, reason=reason, who=by)
        standing = _standing_of(opened, rules, course, student)
        due = standing.deadline.isoformat() if standing.deadline else "no deadline applies"
        files.say(f"{_told(standing)}\ndeadline: {due}\n", needed=False)


# --- grading again --------------------------------------------------------------------------------


@app.command()
def regrade(
    book: Book,
    apply: Annotated[
        bool, typer.Option("--apply", help="Let the new results count from now on.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Let the results before the last --apply count again.")
    ] = False,
    jobs: Jobs = None,
    fresh: Fresh = False,
    device: Device = "cpu",
    by: Who = "",
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Grade the stored sources again, with today's suite. The old results stay.

    Nothing changes for anybody until --apply, and --undo takes that back.
    """
    if apply and undo:
        raise UsageError("regrade: give either --apply or --undo")
    course, rules = _course_and_rules(course_folder, rules_file)
    with gradebook.writing(book) as opened:
        current = _current(opened, device)
        if undo:
            before = opened.before(device)
            if before is None:
                raise UsageError(f"{book}: no regrade was applied that could be undone")
            opened.apply(before, why="undo", who=by)
            files.say("the results before the last regrade count again\n", needed=False)
            return
        was = opened.setup(current)
        problems = [course.problem(p) for p in was.problems if p in {q.id for q in course.problems}]
        today = setups.of_today(
            course, problems, device=device, isolation=was.isolation, seed=was.seed
        )
        setup = opened.number_of(today)
        if setup == current:
            files.say("nothing to regrade: suite, grader and torch are the same\n", needed=False)
            return
        _grade(course, opened, setup, jobs=jobs, fresh=fresh)
        _say_changes(opened, rules, course, current, setup, verbose=False)
        if faulty := _faulty(opened, rules, course, setup):
            raise GraderFault(
                f"the grader failed on {', '.join(faulty[:SHOWN])}; the old results still count; "
                "give these students their points by `grader override`, and regrade again"
            )
        if apply:
            interrupts.stop_if_seen()
            opened.apply(setup, why="regrade", who=by)
            opened.merge_devices()
        said = (
            "the new results count"
            if apply
            else "the old results still count; --apply changes that"
        )
        files.say(f"{said}\n", needed=False)


@app.command()
def diff(
    book: Book,
    verbose: Annotated[bool, typer.Option("--verbose", help="List every change.")] = False,
    device: Device = "cpu",
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Show what the last regrade would change: who gains, who loses, and by which test."""
    course, rules = _course_and_rules(course_folder, rules_file)
    with gradebook.reading(book) as opened:
        current = _current(opened, device)
        before = opened.before(device)
        if before is not None:
            _say_changes(opened, rules, course, before, current, verbose=verbose)
            files.say("this regrade was applied: the new results count\n", needed=False)
            return
        setup = opened.last_other(device, current)
        if setup is None:
            raise UsageError(f"{book}: nothing was regraded; `grader regrade {book}` does")
        _say_changes(opened, rules, course, current, setup, verbose=verbose)


def _faulty(book: Gradebook, rules: Policy, course: Course, setup: int) -> list[str]:
    """The students whose grade would be a fault of the grader."""
    found = classes.standings(book, rules, _max_score(book, course), setups=[setup], problems=False)
    return [one.student.id for one in found if one.state is State.GRADER_ERROR]


def _current(book: Gradebook, device: str) -> int:
    current = book.current(device)
    if current is None:
        raise UsageError(f"{book.path}: nothing was graded on this device yet")
    return current


def _say_changes(
    book: Gradebook, rules: Policy, course: Course, old: int, new: int, *, verbose: bool
) -> None:
    """Print who gains and who loses from one setup's results to another's."""
    found = comparisons.compare(book, rules, _max_score(book, course), [old], [new])
    lines = [f"changed: {line}" for line in setups.differences(book.setup(old), book.setup(new))]
    gain = sum(change.points > 0 for change in found.changes)
    lose = sum(change.points < 0 for change in found.changes)
    lines.append(
        f"{found.students} students: {gain} gain, {lose} lose, "
        f"{len(found.changes) - gain - lose} change otherwise; "
        f"points of the class {found.before:.2f}, then {found.after:.2f}"
    )
    if found.left:
        lines.append(f"{found.left} more students have no new result yet: call regrade again")
    limit = None if verbose else SHOWN
    for (test, way), number in found.tests.most_common(limit):
        lines.append(f"  {test}: {number} {way} by it")
    for change in found.changes[:limit]:
        lines.append(_change_line(change))
        lines += [f"      {text}" for text in change.tests[:limit]]
    if limit and len(found.changes) > limit:
        lines.append(f"and {len(found.changes) - limit} more; `grader diff --verbose` lists all")
    files.say("".join(f"{one_line(line, 300)}\n" for line in lines), needed=False)


def _change_line(change: comparisons.Change) -> str:
    def points(one: Standing) -> str:
        return one.state.words if one.points is None else f"{one.points:.2f}"

    return (
        f"  {change.before.student.id}: {points(change.before)}, then {points(change.after)} "
        f"({change.points:+.2f})"
    )


# --- exports --------------------------------------------------------------------------------------


@app.command()
def export(
    book: Book,
    csv: Annotated[Path | None, typer.Option("--csv", help="Everything, as one table.")] = None,
    canvas: Annotated[
        Path | None, typer.Option("--canvas", metavar="FILE", help="A file for Canvas to import.")
    ] = None,
    canvas_export: Annotated[
        Path | None,
        typer.Option(
            "--canvas-export",
            metavar="FILE",
            help="A gradebook that Canvas exported: fill in the assignment's column of it.",
        ),
    ] = None,
    gradescope_folder: Annotated[
        Path | None,
        typer.Option("--gradescope", metavar="DIR", help="A results.json for each student."),
    ] = None,
    junit_folder: Annotated[
        Path | None, typer.Option("--junit", metavar="DIR", help="JUnit XML for each student.")
    ] = None,
    markdown_folder: Annotated[
        Path | None, typer.Option("--markdown", metavar="DIR", help="A report for each student.")
    ] = None,
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Write the class's points for other programs; a student without a grade gets an empty cell."""
    folders = {"json": gradescope_folder, "xml": junit_folder, "md": markdown_folder}
    if not any([csv, canvas, *folders.values()]):
        raise UsageError(
            "export: name at least one of --csv --canvas --gradescope --junit --markdown"
        )
    if canvas_export and not canvas:
        raise UsageError("export: --canvas-export needs --canvas, the file to write")
    for path in filter(None, [csv, canvas]):
        files.check_writable(path)
    _check_apart([book, Path(f"{book}-wal"), Path(f"{book}.lock"), csv, canvas])
    course, rules = _course_and_rules(course_folder, rules_file)
    with gradebook.reading(book) as opened:
        found = classes.standings(opened, rules, _max_score(opened, course))
        if csv:
            ids = [problem.id for problem in course.problems]
            files.write(csv, tables.csv_table(found, ids).encode())
        if canvas:
            _export_canvas(canvas, found, rules, canvas_export)
        for suffix, folder in folders.items():
            if folder:
                _export_reports(opened, found, folder, suffix)
    for written in [csv, canvas, *folders.values()]:
        if written:
            files.say(f"wrote {written}\n", needed=False)


def _check_apart(paths: list[Path | None]) -> None:
    """Refuse to write one file twice, or over the gradebook."""
    seen: set[Path] = set()
    for path in filter(None, paths):
        if path.resolve() in seen:
            raise UsageError(f"export: {path} would be overwritten; name another file")
        seen.add(path.resolve())


def _export_canvas(path: Path, found: list[Standing], rules: Policy, exported: Path | None) -> None:
    try:
        text = exported.read_text(encoding="utf-8-sig") if exported else None
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{exported} cannot be read: {e}") from None
    table = tables.canvas(
        found, title=rules.title, assignment_id=rules.canvas_id or None, exported=text
    )
    files.write(path, table.text.encode())
    for note in table.notes:
        print(f"grader: {note}", file=sys.stderr)


def _export_reports(book: Gradebook, found: Iterable[Standing], folder: Path, suffix: str) -> None:
    """Write a file for each student who has a result."""
    renders = {
        "json": lambda result, one: gradescope.render(result, one),
        "xml": lambda result, one: junit.render(result),
        "md": lambda result, one: markdown.render(result, one),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"{folder} cannot be made: {e.strerror}") from None
    for one in found:
        interrupts.stop_if_seen()
        result = _result_of(book, one)
        if result is not None:
            content = renders[suffix](result, one)
            name = gradebook.file_name(one.student.id)
            files.write(folder / f"{name}.{suffix}", content.encode("utf-8", "replace"))
