"""The commands that change the list of students: merge two entries, rename, remove, and undo."""

import sys
import unicodedata
from typing import Annotated

from grader.base import files
from grader.base.errors import UsageError
from grader.classroom import texts
from grader.classroom.gradebook import Gradebook
from grader.classroom.merged_entries import EntryChange, Kind
from grader.classroom.standings import Class
from grader.commands.classes import BookOption, RulesOption, StudentId, Who, class_of
from grader.commands.options import Folder, app, option, require_one_of_two
from kit.text import one_line

LONGEST = 200  # characters of an id or name
DONE: dict[Kind, str] = {"merge": "merged", "rename": "renamed", "remove": "removed"}
Undo = Annotated[bool, option("--undo", "Undo the last change of this kind.")]
Why = Annotated[str, option("--reason", "The reason, which is recorded.")]


@app.command("merge-students")
def merge_students(
    student: StudentId,
    book: BookOption,
    into: Annotated[str, option("--into", "The entry that is the same student.", "OTHER")] = "",
    reason: Why = "",
    undo: Undo = False,
    by: Who = "",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Make two entries of a gradebook one student, with all attempts and decisions of both.

    What the first entry gets later, such as the next file with its name, is the student's, too.
    """
    require_one_of_two("merge-students", "either --into OTHER or --undo", bool(into), undo)
    with class_of(book, course_folder, rules_file, writes=True) as whole:
        if undo:
            _undo(whole, student, "merge", reason=reason, by=by)
            return
        first, second = whole.standing(student), whole.standing(into)
        who = first.student.id, second.student.id
        if who[0] == who[1]:
            raise UsageError(f"--into {into}: this is {who[0]} itself; expected another entry")
        whole.book.students.change("merge", who[0], becomes=who[1], reason=reason, who=by)
        lines = [f"before:  {texts.grade(one)}" for one in (first, second)]
        undated = [one for one in whole.book.attempts.all(who[1]) if one.submitted_at is None]
        if first.attempts and second.attempts and undated:
            print(
                f"grader: {one_line(who[1], 100)}: attempts without a time count in the order in "
                "which they were read; `--undo` undoes this",
                file=sys.stderr,
            )
        now = whole.read_again()
        said = texts.student(now, now.standing(who[1]))
        files.say("".join(f"{one_line(line, 500)}\n" for line in lines) + said, needed=False)


@app.command("rename-student")
def rename_student(
    student: StudentId,
    book: BookOption,
    new_id: Annotated[str, option("--id", "The new id.", "ID")] = "",
    name: Annotated[str, option("--name", "The new name.")] = "",
    reason: Why = "",
    undo: Undo = False,
    by: Who = "",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Give a student another id or name; files with the former id are still the student's."""
    options = "--id or --name, or else --undo"
    require_one_of_two("rename-student", options, bool(new_id or name), undo)
    with class_of(book, course_folder, rules_file, writes=True) as whole:
        if undo:
            _undo(whole, student, "rename", reason=reason, by=by)
            return
        who = whole.find(student)
        becomes = _new(new_id, "--id") if new_id else who
        _require_free(whole.book, who, becomes)
        new = _new(name, "--name") if name else ""
        whole.book.students.change("rename", who, becomes=becomes, name=new, reason=reason, who=by)
        now = whole.read_again()
        files.say(texts.student(now, now.standing(becomes)), needed=False)


@app.command("remove-student")
def remove_student(
    student: StudentId,
    book: BookOption,
    reason: Why = "",
    undo: Undo = False,
    by: Who = "",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Take a student who left out of status, exports and statistics; nothing is deleted."""
    if not reason.strip() and not undo:
        raise UsageError(
            "--reason is missing or empty: expected the reason, which the gradebook keeps"
        )
    with class_of(book, course_folder, rules_file, writes=True) as whole:
        if undo:
            _undo(whole, student, "remove", reason=reason, by=by)
            return
        standing = whole.standing(student)
        whole.book.students.change("remove", standing.student.id, reason=reason, who=by)
        said = f"removed: {texts.grade(standing)}; --undo brings the student back"
        files.say(f"{one_line(said, 500)}\n", needed=False)


def _undo(whole: Class, student: str, kind: Kind, *, reason: str, by: str) -> None:
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
    whole.book.students.undo_change(change, reason=reason, who=by)
    now, listed = whole.read_again(), {one.id for one in whole.book.students.all()}
    for who in dict.fromkeys((change.student, change.becomes)):
        if who in listed:
            files.say(texts.student(now, now.standing(who)), needed=False)


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
    taken = [one for one in sorted(former) if one.casefold() == new_id.casefold() and one != who]
    if not taken:
        return
    if entries.id_of(taken[0]) == who:
        raise UsageError(f"--id {new_id}: it is a former id of {who}; --undo brings it back")
    raise UsageError(
        f"--id {new_id}: a student has this id; if both are one student, use "
        f"`grader merge-students`"
    )
