"""The commands for a whole class."""

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from grader.base import files, interrupts, removable
from grader.base.errors import GraderFault, SandboxUnavailable, UsageError
from grader.base.output_paths import Writes
from grader.classroom import (
    batches,
    gradebook,
    gradescope_comparison,
    intake,
    roster,
    setups,
    spreadsheet_csv,
    status_texts,
    switching_setups,
)
from grader.classroom.batches import BatchProgress
from grader.classroom.class_records import Standing, State, Student, called
from grader.classroom.executor import Cluster, Executor, LocalExecutor
from grader.classroom.gradebook import BookCourse, Gradebook
from grader.classroom.setups import Setup
from grader.classroom.standings import Class
from grader.classroom.switching_setups import Switch, losing
from grader.commands.parameters import parameters_of
from grader.commands.progress_line import advancing, telling
from grader.commands.report_options import Export, Paths, reported, to_folders
from grader.commands.shared_options import (
    DeviceOption,
    Folder,
    LevelOption,
    Only,
    Seed,
    app,
    argument,
    chosen,
    device_named,
    level_named,
    note,
    one_of,
    option,
)
from grader.course import courses, late_policy
from grader.course.courses import Course
from grader.course.late_policy import Policy
from grader.report import json_report, result_difference
from grader.report.formats import FORMATS
from grader.report.report_contents import Format
from grader.report.shared_wording import duration
from grader.sandbox import levels
from grader.sandbox.levels import Isolation
from grader.sandbox.process_pool import usual_jobs
from kit.safe_text import counted, first, one_line

SHOWN = 9  # the most students that a message names
Book = Annotated[Path, argument("GRADEBOOK", "The gradebook that `grader batch` wrote.")]
BookOption = Annotated[Path, option("--gradebook FILE", "The gradebook that `grader batch` wrote.")]
StudentId = Annotated[str, argument("STUDENT", "The student's id, name or address, in any case.")]
Jobs = Annotated[
    int | None,
    option(
        "--jobs",
        "Number of processes (default: one per processor; with --device cuda always one per GPU).",
        min=1,
    ),
]
# By the name that `--executor` takes.
CLUSTERS: dict[str, Cluster] = removable.objects("grader.classroom.removable", "CLUSTER")
EXECUTORS = {"local": "this machine"} | {name: one.help for name, one in CLUSTERS.items()}
Where = Annotated[
    str, option("--executor", " ".join(f"{name}: {one}." for name, one in EXECUTORS.items()))
]
Address = Annotated[
    str | None,
    option(
        "--address HOST:PORT",
        "The cluster's address (default: the cluster that this machine belongs to).",
    ),
]
RulesOption = Annotated[
    Path | None,
    option(
        "--policy FILE",
        "Deadlines and late penalties (default: those that `grader batch` stored, or policy.toml).",
    ),
]


def course_and_rules(
    folder: Path | None, rules_file: Path | None, book: Path, *, grades: bool = False
) -> tuple[Course, Policy | None]:
    """The course, and the rules that --policy names, if it names any.

    A mistake in the course's own policy is reported now, not when the policy is first used. With
    `grades`, the command runs the course's tests, which whoever made the gradebook must not choose,
    and it says itself that they have changed.

    Raises:
        UsageError: The gradebook is of another course, or its course is not there any more, or has
            to be named.
    """
    stored, graded = _of_gradebook(book)
    if folder is None and stored and stored.folder:
        folder = Path(stored.folder)
        if not folder.is_dir():
            raise UsageError(f"{book}: its course was in {folder}: expected --course FOLDER")
        if grades:
            named = shlex.quote(str(folder))
            raise UsageError(f"{book} is of another course: to run its tests, add --course {named}")
    course = courses.load(folder)
    own = late_policy.load(rules_file or course.policy, needed=rules_file is not None)
    _require_course(book, course, stored, graded)
    if graded and not grades and course.suite_sha256() not in {s.suite_sha256 for s in graded}:
        note(
            f"the tests or problems.toml have changed since {book} was graded, and its results are "
            f"of then; `grader regrade {shlex.quote(str(book))}` shows the difference"
        )
    return course, own if rules_file else None


@contextmanager
def class_of(
    book: Path, folder: Path | None, rules_file: Path | None = None, *, writes: bool = False
) -> Iterator[Class]:
    course, rules = course_and_rules(folder, rules_file, book)
    with (gradebook.writing if writes else gradebook.reading)(book) as opened:
        yield Class(opened, course, rules)


def _of_gradebook(book: Path) -> tuple[BookCourse | None, list[Setup]]:
    """The course of a gradebook and the setups that count; nothing if it cannot be read."""
    with suppress(UsageError), gradebook.reading(book) as opened:
        return opened.course, [opened.setups.get(n) for n in opened.setups.in_force().values()]
    return None, []


def _require_course(
    book: Path, course: Course, stored: BookCourse | None, graded: list[Setup]
) -> None:
    """Refuse a course that is not the gradebook's: another title elsewhere, or other problems."""
    known = {problem for setup in graded for problem in setup.problems}
    now = _described(course)
    is_there = stored is not None and (not stored.folder or Path(stored.folder).is_dir())
    is_other = stored and stored.folder != now.folder and stored.title != now.title
    if (is_there and is_other) or (known and known.isdisjoint(p.id for p in course.problems)):
        theirs = f" of {stored.folder or 'the grader'} ({stored.title})" if stored else ""
        raise UsageError(
            f"{book} is of another course{theirs}, with the problems "
            f"{one_line(', '.join(sorted(known)), 200)}: expected its folder as --course, got "
            f"{now.folder or 'the course that comes with the grader'} ({now.title})"
        )


def _described(course: Course) -> BookCourse:
    is_own = course.root == courses.load().root
    folder = "" if is_own else str(course.root.resolve())
    return BookCourse(folder, late_policy.load(course.policy).title)


# --- grading --------------------------------------------------------------------------------------


@app.command()
def batch(
    folder: Annotated[Path, argument()],
    book: Annotated[Path, option("--gradebook FILE"), Writes(sidecars=True)],
    listed: Annotated[Path | None, option("--roster FILE.csv")] = None,
    same_students: Annotated[bool, option("--same-students")] = False,
    layout: Annotated[str, option("--layout FORM")] = "",
    jobs: Jobs = None,
    only: Only = None,
    device: DeviceOption = "cpu",
    seed: Seed = 0,
    isolation: LevelOption = "auto",
    executor: Where = "local",
    address: Address = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Grade a class: every submission in a folder that has no result in the gradebook yet.

    Run it again after an interruption, or when more submissions arrive: existing results are kept.
    Downloads of platforms, such as Gradescope's, are recognised, and so are clones. Exits 3 if the
    grader failed on a submission.

    Args:
        folder: The folder with one file or folder per submission.
        book: The gradebook (SQLite).
        listed: Students: id, name, e-mail, section.
        same_students: The roster has new ids for students whom the gradebook knows: give each the
            roster's id.
        layout: The form of the names, such as 'hw1-{id}_{any}.zip' ({id}, {name}, {email}, {time},
            {any}), if they have one that is not recognised.
    """
    course, rules = course_and_rules(course_folder, rules_file, book, grades=True)
    problems = chosen(course, only)
    one_of("--device", device, "cpu", "cuda")
    if same_students and not listed:
        raise UsageError("--same-students needs --roster")
    level = level_named(isolation)
    where = _where(executor, address, level, course, course_folder, jobs=jobs)
    found = intake.recognise(folder, layout)
    notes: list[str] = []
    students = roster.read(listed, notes) if listed else None
    today = setups.of_today(course, problems, device=device, isolation=level, seed=seed)
    with _opened(book, today, where, course, course_folder) as (opened, grades):
        switch = Switch(opened, today, course, course_folder)
        setup = switch.number
        if switch.is_needed and not opened.results.has_grades:
            switch.apply(setup, why="batch")
        if students:
            notes += _one_entry_each(opened, students, join=same_students)
        if rules:
            opened.remember(rules)
        opened.course = _described(course)
        if students is None and opened.students.has_roster:
            students = [one for one in opened.students.all(removed=True) if one.listed]
        entries = opened.students.entries
        former = {entry for one in students or () for entry in entries.of(one.id)[1:]}
        assigned = roster.assign(found.handed_in, students, former)
        opened.students.enrol(
            [*assigned.missing, *(student for student, _ in assigned.attempts)],
            roster=students is not None,
        )
        with advancing("reading") as advance:
            new = batches.add(opened, assigned.attempts, advance, course)
        for one in (*notes, *found.notes, *assigned.notes):
            note(one)
        print(
            f"{counted(len(assigned.attempts), 'submission')} of "
            f"{counted(len(opened.students.all()), 'student')}, "
            f"{new} of them new; {len(opened.results.to_grade(setup))} to grade",
            file=sys.stderr,
        )
        _grade(opened, setup, grades)
        whole = Class(opened, course)
        if opened.setups.current(device) != setup:
            _count_if_complete(whole, Switch(opened, today, course, course_folder), setup)
        files.say(status_texts.status(whole, verbose=False), needed=False)
        if _any_fault(opened, setup):
            raise typer.Exit(3)


def _one_entry_each(book: Gradebook, students: list[Student], *, join: bool) -> list[str]:
    """Check that a roster gives no known student a second entry, or join the two; return notes."""
    entries, listed = book.students.entries, {one.id for one in students}
    work = {one for one in book.students.with_work() if listed.isdisjoint(entries.of(one))}
    pairs = roster.same_people(students, [s for s in book.students.all() if s.id in work])
    if join:
        for old, new in pairs:
            book.students.change("merge", old.id, becomes=new.id, reason="the roster's id")
        have = counted(len(pairs), "student has", "students have")
        return [f"{have} the roster's id from now on"]
    some = first([one_line(f"{called(old)} is {new.id}", 120) for old, new in pairs], SHOWN)
    if len(pairs) > 1 or len(pairs) == len(students):
        raise UsageError(
            f"--roster has other ids for students whom {book.path} knows ({some}), and each "
            "would count twice: give a roster with the ids of the gradebook, or add "
            "--same-students, which gives each the roster's id"
        )
    how = "`grader merge-students OLD --into NEW` makes them one student"
    return [f"one student may have two ids: {some}; {how}"] if pairs else []


@contextmanager
def _opened(
    path: Path, today: Setup, where: "ExecutorFor", course: Course, folder: Path | None
) -> Iterator[tuple[Gradebook, Executor]]:
    """Open or create a gradebook with what grades; write nothing before that is certain."""
    with ExitStack() as stack:
        opened = stack.enter_context(gradebook.writing(path)) if path.exists() else None
        if opened is not None:
            Switch(opened, today, course, folder).require_none()
        executor = stack.enter_context(where(today))
        yield opened or stack.enter_context(gradebook.writing(path, create=True)), executor


def _count_if_complete(whole: Class, switch: Switch, setup: int) -> None:
    """Make a first run on another device count as soon as nobody would lose a grade by it."""
    counting = switch.counting_with(setup)
    left = losing(whole, counting) if counting else []
    if counting and not left:
        interrupts.stop_if_seen()
        switch.apply(setup, why="batch")
        undo = f"`{switch.undo_command}` reverts that"
        note(f"the results of both devices count from now on; {undo}")
        return
    some = ", ".join(one.student.id for one in left[: status_texts.SHOWN])
    have = counted(len(left), "student has", "students have")
    note(
        f"{have} no result of the new run yet, so the old results count: {some}; run batch again, "
        "or give these students their points with `grader override`"
    )


ExecutorFor = Callable[[Setup], AbstractContextManager[Executor]]


def _where(
    name: str,
    address: str | None,
    isolation: Isolation,
    course: Course,
    folder: Path | None,
    *,
    jobs: int | None,
) -> ExecutorFor:
    """A function that creates the named executor for a setup."""
    cluster = CLUSTERS.get(one_of("--executor", name, *EXECUTORS))
    if cluster:
        cluster.require(address, isolation)
    elif address is not None:
        raise UsageError(f"--address needs --executor {' or '.join(CLUSTERS) or 'of a cluster'}")
    elif why_not := levels.LEVELS[isolation].why_not():
        raise SandboxUnavailable(why_not)

    @contextmanager
    def executor(setup: Setup) -> Iterator[Executor]:
        if cluster:
            yield cluster.executor(course, folder, setup, address=address, jobs=jobs)
            return
        with device_named(setup.device) as gpu:
            yield LocalExecutor(course, setup, jobs=jobs or usual_jobs(), gpu=gpu)

    return executor


def _grade(book: Gradebook, setup: int, executor: Executor) -> None:
    started = time.monotonic()
    files.kept.append(book.path)
    # A cluster may print its events on stdout.
    with telling() as tell, redirect_stdout(sys.stderr):

        def show(progress: BatchProgress) -> None:
            while progress.notes:
                note(progress.notes.pop(0), 500)
            tell(progress.lines(), progress.done, progress.total)

        progress = batches.grade(book, setup, executor, show)
    if progress.total:
        took = duration(time.monotonic() - started)
        print(f"graded {counted(progress.done, 'submission')} in {took}", file=sys.stderr)


def _any_fault(book: Gradebook, setup: int) -> bool:
    return any(grade.fault for grade in book.results.grades(setup).values())


# --- reading --------------------------------------------------------------------------------------


@app.command()
def status(
    book: Book,
    verbose: Annotated[bool, option("--verbose")] = False,
    since: Annotated[str, option("--since DAY")] = "",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Count the students in each state, and list those who need attention.

    Args:
        verbose: List every student.
        since: List what was handed in and decided since then instead, like 2026-10-05.
    """
    with class_of(book, course_folder, rules_file) as whole:
        if since:
            zone = whole.rules.time_zone or "UTC"
            at = late_policy.when(since, what="--since", zone=zone, of_a_day=datetime.min.time())
            students = whole.book.students.all(removed=True)
            lines = whole.book.decisions.since(at, students)
            files.say("".join(f"{one_line(one, 500)}\n" for one in lines), needed=False)
            return
        files.say(status_texts.status(whole, verbose=verbose), needed=False)


@app.command()
def show(
    student: StudentId,
    book: BookOption,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Show one student: all attempts, which one counts and why, and the report of that one."""
    with class_of(book, course_folder, rules_file) as whole:
        standing = whole.standing(student, by_beginning=True)
        files.say(status_texts.student(whole, standing))
        result = whole.result(standing)
        if result is not None:
            report = reported(whole.course, whole.rules, result, standing)
            files.say(FORMATS["terminal"].render(report))


# --- grading again --------------------------------------------------------------------------------


@app.command()
def regrade(
    book: Book,
    apply: Annotated[bool, option("--apply")] = False,
    undo: Annotated[bool, option("--undo")] = False,
    jobs: Jobs = None,
    only: Only = None,
    students: Annotated[list[str] | None, option("--student STUDENT")] = None,
    keep_others: Annotated[bool, option("--keep-others")] = False,
    all_problems: Annotated[bool, option("--all-problems")] = False,
    device: DeviceOption = "cpu",
    seed: Annotated[int | None, option("--seed")] = None,
    isolation: Annotated[str | None, option("--isolation")] = None,
    executor: Where = "local",
    address: Address = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Grade the stored sources again with today's suite or other options; old results are kept.

    No student's grade changes without --apply, which --undo reverts.

    Args:
        apply: Make the new results count.
        undo: Make the results before the last --apply count again.
        students: Only this student; may be repeated. All others keep their results.
        keep_others: With --only: keep the results of all else.
        all_problems: All problems (default: those graded before).
        seed: Another seed (default: the one used before).
        isolation: Another level (default: the one used before).
    """
    for wrong, why in (
        (apply and undo, "expected either --apply or --undo, found both"),
        (only and all_problems, "expected either --only or --all-problems, found both"),
        (keep_others and not only, "--keep-others needs --only"),
    ):
        if wrong:
            raise UsageError(f"regrade: {why}")
    one_of("--device", device, "cpu", "cuda")
    course, rules = course_and_rules(course_folder, rules_file, book, grades=not undo)
    with gradebook.writing(book) as opened:
        if undo:
            _undo(opened, course, course_folder)
            return
        was = opened.setups.get(_current(opened, device))
        graded_before = [problem.id for problem in course.problems if problem.id in was.problems]
        problems = chosen(course, only if only or all_problems else graded_before)
        if was.isolation == "none" and isolation is None:
            raise UsageError(
                "regrade: the results that count were made without isolation: give --isolation, "
                "such as --isolation auto"
            )
        level = was.isolation if isolation is None else level_named(isolation)
        seed = was.seed if seed is None else seed
        today = setups.of_today(course, problems, device=device, isolation=level, seed=seed)
        where = _where(executor, address, level, course, course_folder, jobs=jobs)
        whole = Class(opened, course, rules)
        if students or keep_others:
            listed = sorted({whole.find(one) for one in students or ()})
            today = _part(opened, was, msgspec.structs.replace(today, students=listed), where)
        switch = Switch(opened, today, course, course_folder)
        if not switch.is_needed:
            files.say(f"{switch.nothing_to_do}\n", needed=False)
            return
        if apply:
            switch.require_partner()
        _regrade(whole, switch, where, apply=apply)


def _part(book: Gradebook, was: Setup, part: Setup, where: ExecutorFor) -> Setup:
    """Grade a part of the class or of the problems again; return the setup of all results.

    All others keep their results of the setup `was`, which counts.
    """
    whole = msgspec.structs.replace(part, problems=was.problems, rest=was.sha256)
    number = book.setups.number_of(part)
    if book.results.to_grade(number):
        with where(part) as executor:
            _grade(book, number, executor)
    if _any_fault(book, number):
        raise GraderFault("the grader failed on a part of this; run the same command again")
    rest = book.setups.find(was)
    assert rest is not None
    book.results.fill(book.setups.number_of(whole), number, rest)
    return whole


def _undo(book: Gradebook, course: Course, folder: Path | None) -> None:
    """Make the results before the last step count again, and say how to return."""
    before = book.setups.in_force()
    if not book.setups.undo():
        raise UsageError(f"{book.path}: no regrade was applied, so there is nothing to undo")
    after = book.setups.in_force()
    lines = ["the results before the last regrade count again"]
    for device in sorted(device for device in before if before[device] != after.get(device)):
        undone = book.setups.get(before[device])
        if device not in after:
            lines.append(f"no run with --device {device} counts any more")
            continue
        changed = setups.differences(undone, book.setups.get(after[device]))
        lines += [f"changed: {line}" for line in changed]
        today = setups.of_today(
            course, course.problems, device=device, isolation=undone.isolation, seed=undone.seed
        )
        if back := Switch(book, today, course, folder).command_back_to(undone):
            lines.append(f"`{back}` makes the results that were undone count again")
    files.say("".join(f"{line}\n" for line in lines), needed=False)


def _regrade(whole: Class, switch: Switch, where: ExecutorFor, *, apply: bool) -> None:
    """Grade what has no result of the new setup yet, show what changes, and apply it if asked."""
    book, today = whole.book, switch.today
    setup = book.setups.find(today)
    if setup is None or book.results.to_grade(setup):
        with where(today) as executor:
            setup = book.setups.number_of(today)
            _grade(book, setup, executor)
    old, counting = book.setups.current(today.device), switch.counting_with(setup)
    assert old is not None
    _say_changes(whole, old, setup, verbose=False)
    standings = whole.standings(setups=counting or [setup])
    if faulty := _ids([one for one in standings if one.state is State.GRADER_ERROR]):
        raise GraderFault(
            f"the grader failed on {faulty}; the old results still "
            "count; give these students their points with `grader override`, then regrade again"
        )
    if apply:
        if counting is None or (left := _ids(losing(whole, counting))):
            raise GraderFault(
                f"{left} would have no grade; the old results still count; regrade again on both "
                "devices"
            )
        interrupts.stop_if_seen()
        switch.apply(setup, why="regrade")
    said = (
        f"the new results count; `{switch.undo_command}` reverts that"
        if apply
        else "the old results still count; --apply changes that"
    )
    files.say(f"{said}\n", needed=False)


def _ids(found: list[Standing]) -> str:
    return ", ".join(one.student.id for one in found[: status_texts.SHOWN])


@app.command()
def diff(
    book: Annotated[Path, argument("GRADEBOOK")],
    new: Annotated[Path | None, argument("NEW.json")] = None,
    exported: Annotated[Path | None, option("--gradescope FILE.csv")] = None,
    verbose: Annotated[bool, option("--verbose")] = False,
    device: DeviceOption = "cpu",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Show what the last regrade would change: who gains or loses points, and on which tests.

    `grader diff OLD.json NEW.json` compares two results of `grader grade --json` instead. With
    --gradescope, the command exits 1 if there is a difference.

    Args:
        book: The gradebook, or a result as JSON.
        new: A newer result, to compare two results.
        exported: Scores exported from Gradescope: list the students whose points differ instead.
        verbose: List every change.
    """
    if new is not None and exported is not None:
        raise UsageError("diff: expected either --gradescope or NEW.json, found both")
    if new is not None:
        if rules_file or device != "cpu":
            raise UsageError("diff: two results take neither --policy nor --device")
        results = json_report.read(book), json_report.read(new)
        files.say(result_difference.render(*results))
        if any(result.has_grader_error for result in results):
            raise typer.Exit(3)
        return
    if book.suffix == ".json":
        raise UsageError(f"diff {book}: expected a gradebook, or two results: OLD.json NEW.json")
    course, rules = course_and_rules(course_folder, rules_file, book)
    with gradebook.reading(book) as opened:
        whole = Class(opened, course, rules)
        if exported is not None:
            theirs = gradescope_comparison.read(exported)
            found = gradescope_comparison.differences(whole.standings(), theirs)
            files.say(status_texts.compared(found, len(theirs)))
            raise typer.Exit(1 if found else 0)
        current = _current(opened, device)
        before, other = opened.setups.before(device), opened.setups.last_other(device, current)
        if before is not None and (other is None or other < current):
            _say_changes(whole, before, current, verbose=verbose)
            files.say("this regrade was applied: the new results count\n", needed=False)
            return
        if other is None:
            raise UsageError(f"{book}: nothing was regraded; first run `grader regrade {book}`")
        _say_changes(whole, current, other, verbose=verbose)


def _say_changes(whole: Class, old: int, new: int, *, verbose: bool) -> None:
    found, book = switching_setups.compare(whole, [old], [new]), whole.book
    said = status_texts.changes(
        book.path, found, book.setups.get(old), book.setups.get(new), verbose=verbose
    )
    files.say(said, needed=False)


def _current(book: Gradebook, device: str) -> int:
    current = book.setups.current(device)
    if current is None:
        raise UsageError(
            f"{book.path}: nothing has been graded with --device {device} yet; `grader batch "
            f"FOLDER --gradebook {book.path} --device {device}` does that"
        )
    return current


# --- exports --------------------------------------------------------------------------------------

EXPORTS: dict[str, Export] = removable.objects("grader.commands.export_options", "OPTION")
READ = {name for one in EXPORTS.values() for name, (*_, mark) in one.options.items() if not mark}


@app.command()
@to_folders(EXPORTS)
def export(
    book: Book,
    csv: Annotated[Path | None, option("--csv"), Writes()] = None,
    *,
    paths: Paths,
    late_days_file: Annotated[Path | None, option("--late-days FILE.csv"), Writes()] = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Write the class's points for other programs; a student without a grade gets an empty cell.

    Args:
        csv: Everything in one table.
        late_days_file: The late days of all assignments: replace the rows of this one.
    """
    outs = [csv, late_days_file, *(path for name, path in paths.items() if name not in READ)]
    if not any([*outs, *paths.values()]):
        *most, last = [one.name for one in parameters_of(export) if one.writes]
        listed = f"{', '.join(most)} and {last}"
        raise UsageError(f"export: expected at least one of {listed}, found none")
    with class_of(book, course_folder, rules_file) as whole, files.together():
        found = whole.standings()
        if csv:
            ids = [problem.id for problem in whole.course.problems]
            files.write(csv, spreadsheet_csv.csv_table(found, ids).encode())
        if late_days_file:
            known = late_policy.late_days_in(late_days_file)
            table = spreadsheet_csv.late_days_table(known, whole.rules.title, found)
            files.write(late_days_file, table.encode())
        for one in EXPORTS.values():
            for said in one.write(whole, found, {name: paths[name] for name in one.options}):
                note(said)
        for name, kind in FORMATS.items():
            if kind.folder and (folder := paths[name]):
                _export_reports(whole, found, folder, kind)
    for written in dict.fromkeys(outs):
        if written:
            files.say(f"wrote {written}\n", needed=False)


def _export_reports(whole: Class, found: Iterable[Standing], folder: Path, kind: Format) -> None:
    files.make_folder(folder)
    for one in found:
        interrupts.stop_if_seen()
        result = whole.reportable(one)
        if result is not None:
            sources = whole.sources(one) if kind.quotes else {}
            content = kind.render(reported(whole.course, whole.rules, result, one, sources=sources))
            name = gradebook.file_name(one.student.id)
            files.write(folder / f"{name}.{kind.suffix}", content.encode("utf-8", "replace"))
