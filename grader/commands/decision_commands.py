"""The commands with which people decide: points, deadlines, who is a student, and feedback."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from grader.base import files
from grader.base.errors import UsageError, no_such
from grader.classroom import overrides, status_texts
from grader.classroom.gradebook import Gradebook
from grader.classroom.merged_students import EntryChange, Kind
from grader.classroom.overrides import Decision
from grader.classroom.standings import Class
from grader.classroom.stored_attempts import Attempt
from grader.commands.class_commands import BookOption, StudentId, class_of
from grader.commands.shared_options import (
    Folder,
    app,
    argument,
    chosen,
    option,
    require_one,
)
from grader.course import late_policy
from grader.report.shared_wording import MAX_TEXT
from grader.results.result_records import TestResult
from kit.safe_text import counted, one_line

Reason = Annotated[str, option("--reason", "The reason, which the student's report shows.")]
Apply = Annotated[
    bool,
    option("--apply", "With several students: write it; without it, only show the difference."),
]
Anyway = Annotated[
    bool, option("--anyway", "Give more points than there are, or points for nothing handed in.")
]
LONGEST = 200  # characters of an id or name
DONE: dict[Kind, str] = {"merge": "merged", "rename": "renamed", "remove": "removed"}
Undo = Annotated[bool, option("--undo", "Undo the last change of this kind.")]
Why = Annotated[str, option("--reason", "The reason, which is recorded.")]


# --- points and deadlines -------------------------------------------------------------------------


@app.command()
def override(
    book: BookOption,
    student: StudentId = "",
    reason: Reason = "",
    points: Annotated[float | None, option("--points", min=0)] = None,
    problem: Annotated[str, option("--problem")] = "",
    remove: Annotated[bool, option("--remove")] = False,
    rows: Annotated[Path | None, option("--from FILE.csv")] = None,
    apply: Apply = False,
    anyway: Anyway = False,
    course_folder: Folder = None,
) -> None:
    """Give students points by hand; the grader's own result is kept.

    Args:
        points: The points to give.
        problem: Give the points for this problem, not as the total.
        remove: Withdraw the points that an override gave.
        rows: Give points to several students: columns student, points, problem, reason.
    """
    require_one("override", {"STUDENT": student, "--from": rows})
    if rows and (points is not None or problem or remove):
        raise UsageError(
            "override: --from takes the points and problems from the file: remove --points, "
            "--problem and --remove"
        )
    _require_points(points)
    if not rows:
        _require_reason(reason)
        require_one("override", {"--points": points is not None, "--remove": remove})

    def decided(whole: Class) -> list[Decision]:
        if rows:
            return overrides.read(rows, whole, column="points", reason=reason, anyway=anyway)
        if problem:
            chosen(whole.course, [problem], "--problem")
        standing = whole.standing(student)
        if remove and not any(one.problem == problem for one in standing.overrides):
            who, what = one_line(standing.student.id, 100), problem or "the assignment"
            raise UsageError(f"{who} has no points by hand for {what}: there is nothing to remove")
        if points is not None and not anyway:
            overrides.require_possible(whole, standing, points, problem)
        who = standing.student.id
        return [Decision(student=who, points=points, problem=problem, reason=reason)]

    with class_of(book, course_folder, writes=True) as whole:
        _decide(whole, decided, keep=apply if rows else None)


@app.command()
def extend(
    book: BookOption,
    student: StudentId = "",
    until: Annotated[str, option("--until")] = "",
    reason: Reason = "",
    section: Annotated[str, option("--section")] = "",
    rows: Annotated[Path | None, option("--from FILE.csv")] = None,
    apply: Apply = False,
    course_folder: Folder = None,
) -> None:
    """Give students a later deadline.

    Args:
        until: The new deadline: 2026-10-05T23:59:00-07:00, or a day.
        section: Extend the deadline of everybody in this section.
        rows: Extend several students' deadlines: columns student, until, reason.
    """
    require_one("extend", {"STUDENT": student, "--section": section, "--from": rows})
    require_one("extend", {"--until": until, "--from with a column until": rows})
    if not rows:
        _require_reason(reason)

    def decided(whole: Class) -> list[Decision]:
        if rows:
            return overrides.read(rows, whole, column="until", reason=reason, anyway=True)
        at = late_policy.when(until, what="--until", zone=whole.rules.time_zone)
        who = _in_section(whole, section) if section else [whole.find(student)]
        return [Decision(student=one, until=at, reason=reason) for one in who]

    with class_of(book, course_folder, writes=True) as whole:
        _decide(whole, decided, keep=None if student else apply)


def _decide(whole: Class, decided: Callable[[Class], list[Decision]], *, keep: bool | None) -> None:
    """Write decisions and show what they changed; `keep` is None for one student."""
    found = decided(whole)
    rules = whole.rules
    before = {
        one.student.id: status_texts.grade_and_deadline(rules, one) for one in whole.standings()
    }
    with whole.book.decisions.together(keep=keep is not False):
        overrides.write(whole, found)
        after = {one.student.id: one for one in whole.standings()}
    for student in dict.fromkeys(one.student for one in found):
        now = status_texts.grade_and_deadline(rules, after[student])
        lines = status_texts.changed(before[student], now)
        if keep is None:
            lines = now if found[0].until else now[:1]
        files.say("".join(f"{one_line(line, 500)}\n" for line in lines), needed=False)
    if keep is not None:
        done = "this is written" if keep else "nothing is written; --apply writes this"
        files.say(f"{done}\n", needed=False)


def _in_section(whole: Class, section: str) -> list[str]:
    students = whole.book.students.all()
    found = [one.id for one in students if one.section.casefold() == section.strip().casefold()]
    if not found:
        there_are = ", ".join(sorted({one.section for one in students if one.section})) or "none"
        raise UsageError(
            f"--section {one_line(section, 100)}: no student is in it; sections with students: "
            f"{one_line(there_are, 300)}"
        )
    return found


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise UsageError("--reason is missing or empty: expected the reason, which is recorded")


def _require_points(points: float | None) -> None:
    if points is not None and not points < late_policy.MOST:
        raise UsageError(f"--points {points:g}: expected a number of points, such as 4.5")


# --- the list of students -------------------------------------------------------------------------


@app.command("merge-students")
def merge_students(
    student: StudentId,
    book: BookOption,
    into: Annotated[str, option("--into OTHER")] = "",
    reason: Why = "",
    undo: Undo = False,
    course_folder: Folder = None,
) -> None:
    """Make two entries of a gradebook one student, with all attempts and decisions of both.

    What the first entry gets later, such as the next file with its name, is the student's, too.

    Args:
        into: The entry that is the same student.
    """
    require_one("merge-students", {"--into OTHER": into, "--undo": undo})
    with class_of(book, course_folder, writes=True) as whole:
        if undo:
            _undo(whole, student, "merge", reason=reason)
            return
        first, second = whole.standing(student), whole.standing(into)
        who = first.student.id, second.student.id
        if who[0] == who[1]:
            raise UsageError(f"--into {into}: this is {who[0]} itself; expected another entry")
        whole.book.students.change("merge", who[0], becomes=who[1], reason=reason)
        lines = [f"before:  {status_texts.grade(one)}" for one in (first, second)]
        said = status_texts.student(whole, whole.standing(who[1]))
        files.say("".join(f"{one_line(line, 500)}\n" for line in lines) + said, needed=False)


@app.command("rename-student")
def rename_student(
    student: StudentId,
    book: BookOption,
    new_id: Annotated[str, option("--id ID")] = "",
    name: Annotated[str, option("--name")] = "",
    reason: Why = "",
    undo: Undo = False,
    course_folder: Folder = None,
) -> None:
    """Give a student another id or name; files with the former id are still the student's.

    Args:
        new_id: The new id.
        name: The new name.
    """
    require_one("rename-student", {"--id, --name": new_id or name, "--undo": undo})
    with class_of(book, course_folder, writes=True) as whole:
        if undo:
            _undo(whole, student, "rename", reason=reason)
            return
        who = whole.find(student)
        becomes = _new(new_id, "--id") if new_id else who
        _require_free(whole.book, who, becomes)
        new = _new(name, "--name") if name else ""
        whole.book.students.change("rename", who, becomes=becomes, name=new, reason=reason)
        files.say(status_texts.student(whole, whole.standing(becomes)), needed=False)


@app.command("remove-student")
def remove_student(
    student: StudentId,
    book: BookOption,
    reason: Why = "",
    undo: Undo = False,
    course_folder: Folder = None,
) -> None:
    """Take a student who left out of status, exports and statistics; nothing is deleted."""
    if not undo:
        _require_reason(reason)
    with class_of(book, course_folder, writes=True) as whole:
        if undo:
            _undo(whole, student, "remove", reason=reason)
            return
        standing = whole.standing(student)
        whole.book.students.change("remove", standing.student.id, reason=reason)
        said = f"removed: {status_texts.grade(standing)}; --undo brings the student back"
        files.say(f"{one_line(said, 500)}\n", needed=False)


def _undo(whole: Class, student: str, kind: Kind, *, reason: str) -> None:
    """Undo the last change of a kind, and show the students that there are then."""
    entries = whole.book.students.entries
    change = entries.last(student, kind)
    if change is None:
        change = entries.last(whole.find(student, removed=True), kind)
    if change is None:
        raise UsageError(
            f"{whole.book.path}: {student} was not {DONE[kind]}, so there is nothing to undo"
        )
    _require_last(entries.changes, change)
    whole.book.students.undo_change(change, reason=reason)
    listed = {one.id for one in whole.book.students.all()}
    for who in dict.fromkeys((change.student, change.becomes)):
        if who in listed:
            files.say(status_texts.student(whole, whole.standing(who)), needed=False)


def _require_last(changes: list[EntryChange], change: EntryChange) -> None:
    later = [
        one
        for one in changes
        if one.id > change.id and one.student == change.becomes and change.becomes != change.student
    ]
    if later:
        raise UsageError(f"first undo what came later: {one_line(later[-1].words, 300)}")


def _new(text: str, option: str) -> str:
    """An id or a name as the gradebook stores it."""
    found = " ".join(unicodedata.normalize("NFC", text).split())
    if not found or len(found) > LONGEST or one_line(found, LONGEST) != found:
        raise UsageError(
            f"{option} {one_line(text, 50)!r}: expected 1 to {LONGEST} printable characters"
        )
    return found


def _require_free(book: Gradebook, who: str, new_id: str) -> None:
    """Check that no other entry has an id, also in another case."""
    entries = book.students.entries
    known = {one.id for one in book.students.all(removed=True)}
    former = {entry for one in known for entry in entries.of(one)}
    for one in sorted(former - {who}):
        if one.casefold() == new_id.casefold():
            is_own = entries.id_of(one) == who
            how = f"it is a former id of {who}; --undo brings it back"
            other = "a student has this id; if both are one, use `grader merge-students`"
            raise UsageError(f"--id {new_id}: {how if is_own else other}")


# --- comments and regrade requests ----------------------------------------------------------------


@app.command()
def comment(
    student: StudentId,
    book: BookOption,
    text: Annotated[str, option("--text")] = "",
    again: Annotated[str, option("--again NAME")] = "",
    name: Annotated[str, option("--name")] = "",
    problem: Annotated[str, option("--problem")] = "",
    remove: Annotated[int | None, option("--remove", min=1)] = None,
    course_folder: Folder = None,
) -> None:
    """Write a comment into a student's reports, or use one again that was written before.

    Args:
        text: The comment.
        again: Use the comment of this name again.
        name: A name for the comment, for --again later.
        problem: The problem it is about (default: the submission).
        remove: Withdraw the comment of this number.
    """
    require_one("comment", {"--text": text, "--again": again, "--remove": remove})
    if name and not text:
        raise UsageError("comment: --name needs --text")
    with class_of(book, course_folder, writes=True) as whole:
        if problem:
            chosen(whole.course, [problem], "--problem")
        opened, standing = whole.book, whole.standing(student)
        student = standing.student.id
        if remove is not None:
            if not opened.feedback.remove_comment(student, remove):
                raise UsageError(f"{book}: {student} has no comment {remove}")
            files.say(f"comment {remove} is withdrawn\n", needed=False)
            return
        said = _named(opened, again) if again else _line(text, "--text")
        attempts = opened.attempts.all(student)
        counts = attempts[standing.attempt - 1].id if standing.attempt else None
        number = opened.feedback.comment(student, said, problem=problem, attempt=counts, name=name)
        files.say(f"comment {number} is in the reports of {student}\n", needed=False)


def _named(book: Gradebook, name: str) -> str:
    known = book.feedback.named_comments()
    if name not in known:
        names = [one_line(one, 50) for one in known]
        raise UsageError(f"--again {name}: {no_such('comment', name, names)}")
    return known[name]


def _line(text: str, option: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise UsageError(f"{option} is empty: expected a text")
    if len(line) > MAX_TEXT:
        raise UsageError(f"{option} has {len(line)} characters: expected at most {MAX_TEXT}")
    return line


@app.command()
def request(
    student: StudentId,
    book: BookOption,
    problem: Annotated[str, option("--problem")],
    test: Annotated[str, option("--test")],
    text: Annotated[str, option("--text")],
    attempt: Annotated[int | None, option("--attempt", min=1)] = None,
    course_folder: Folder = None,
) -> None:
    """Store a student's regrade request, together with how the test ended.

    `grader status` lists open requests, and `grader answer` answers them.

    Args:
        problem: The problem of the test.
        test: The test, as the report names it.
        text: What the student says.
        attempt: The attempt (default: the one that counts).
    """
    said = _line(text, "--text")
    with class_of(book, course_folder, writes=True) as whole:
        opened, standing = whole.book, whole.standing(student)
        student = standing.student.id
        attempts = opened.attempts.all(student)
        place = attempt or standing.attempt
        if not attempts:
            raise UsageError(f"{student} handed in nothing: there is no attempt to regrade")
        if not 1 <= place <= len(attempts):
            has = counted(len(attempts), "attempt")
            raise UsageError(f"--attempt {place}: {student} has {has}")
        setup, found = _evidence(opened, attempts[place - 1], problem, test)
        ended = found.status.words + (f": {one_line(found.said, 200)}" if found.said else "")
        number = opened.feedback.request(
            attempts[place - 1], setup, problem=problem, test=test, evidence=ended, text=said
        )
        files.say(
            f"regrade request {number}: {student}, attempt {place}: "
            f"{one_line(f'{problem}, {test} ({ended})', 400)}\n",
            needed=False,
        )


def _evidence(book: Gradebook, attempt: Attempt, problem: str, test: str) -> tuple[int, TestResult]:
    """A test of an attempt's result, and the number of the setup that it is from."""
    for setup in book.results.counting():
        result = book.results.result(attempt.sources or "", setup)
        if result is None:
            continue
        tests = {(p.id, t.id): t for p in result.problems for t in p.tests}
        if (problem, test) in tests:
            return setup, tests[problem, test]
        known = [one for name, one in tests if name == problem]
        if not known:
            ids = [one.id for one in result.problems]
            raise UsageError(f"--problem {problem}: {no_such('problem', problem, ids)}")
        raise UsageError(f"--test {test}: {one_line(no_such('test', test, known), 1_000)}")
    raise UsageError(f"{attempt.student}: this attempt has no result yet")


@app.command()
def answer(
    number: Annotated[int, argument("REQUEST", min=1)],
    book: BookOption,
    reason: Annotated[str, option("--reason")],
    accept: Annotated[bool, option("--accept")] = False,
    refuse: Annotated[bool, option("--refuse")] = False,
    points: Annotated[float | None, option("--points", min=0)] = None,
    course_folder: Folder = None,
) -> None:
    """Answer a regrade request; the student's reports contain the answer and the reason.

    Accept it with points, or correct the test and run `grader regrade`. The last answer counts.

    Args:
        number: The number of the regrade request.
        reason: The reason, which the student's report contains.
        accept: Accept the request.
        refuse: Refuse the request.
        points: With --accept: the points for the problem.
    """
    require_one("answer", {"--accept": accept, "--refuse": refuse})
    if refuse and points is not None:
        raise UsageError("answer: --points needs --accept")
    _require_points(points)
    why = _line(reason, "--reason")
    with class_of(book, course_folder, writes=True) as whole:
        requests = {one.id: one for one in whole.book.feedback.requests()}
        asked = requests.get(number)
        if asked is None:
            there_are = ", ".join(map(str, requests)) or "none"
            raise UsageError(f"REQUEST {number}: no such regrade request; there are {there_are}")
        if points is not None and points > (most := whole.problem(asked.problem).points):
            raise UsageError(
                f"--points {points:g}: {asked.problem} gives at most {most:g}; "
                "`grader override --anyway` gives more"
            )
        whole.book.feedback.answer(asked, accepted=accept, points=points, reason=why)
        text = status_texts.grade(whole.standing(asked.student))
        if accept and points is None:
            text += (
                "\nno points changed: correct the test and run `grader regrade`, or give --points"
            )
        files.say(f"{text}\n", needed=False)
