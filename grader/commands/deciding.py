"""The commands that give students points and deadlines by hand."""

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from grader.base import files
from grader.base.errors import UsageError
from grader.classroom import decisions, texts
from grader.classroom.decisions import Decision
from grader.classroom.standings import Class
from grader.commands.classes import BookOption, RulesOption, Who, class_of
from grader.commands.options import Folder, app, argument, chosen, option, require_one_of_two
from grader.course import policies
from kit.text import one_line

OneStudent = Annotated[str, argument("The student's id, name or address, in any case.", "STUDENT")]
Reason = Annotated[str, option("--reason", "The reason, which the student's report shows.")]
Apply = Annotated[
    bool,
    option("--apply", "With several students: write it; without it, only show the difference."),
]
Anyway = Annotated[
    bool, option("--anyway", "Give more points than there are, or points for nothing handed in.")
]


@app.command()
def override(
    book: BookOption,
    student: OneStudent = "",
    reason: Reason = "",
    points: Annotated[float | None, option("--points", "The points to give.", min=0)] = None,
    problem: Annotated[
        str, option("--problem", "Give the points for this problem, not as the total.")
    ] = "",
    remove: Annotated[
        bool, option("--remove", "Withdraw the points that an override gave.")
    ] = False,
    rows: Annotated[
        Path | None,
        option(
            "--from",
            "Give points to several students: columns student, points, problem, reason.",
            "FILE.csv",
        ),
    ] = None,
    apply: Apply = False,
    anyway: Anyway = False,
    by: Who = "",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Give students points by hand; the grader's own result is kept."""
    _require_one("override", {"STUDENT": student, "--from": rows})
    if rows and (points is not None or problem or remove):
        raise UsageError(
            "override: --from takes the points and problems from the file: remove --points, "
            "--problem and --remove"
        )
    require_points(points)
    if not rows:
        _require_reason(reason)
        options = "either --points or --remove"
        require_one_of_two("override", options, points is not None, remove)

    def decided(whole: Class) -> list[Decision]:
        if rows:
            return decisions.read(rows, whole, column="points", reason=reason, anyway=anyway)
        if problem:
            chosen(whole.course, [problem], "--problem")
        standing = whole.standing(student)
        if remove and not any(one.problem == problem for one in standing.overrides):
            who, what = one_line(standing.student.id, 100), problem or "the assignment"
            raise UsageError(f"{who} has no points by hand for {what}: there is nothing to remove")
        if points is not None and not anyway:
            decisions.require_possible(whole, standing, points, problem)
        who = standing.student.id
        return [Decision(student=who, points=points, problem=problem, reason=reason)]

    with class_of(book, course_folder, rules_file, writes=True) as whole:
        _decide(whole, decided, by=by, keep=apply if rows else None)


@app.command()
def extend(
    book: BookOption,
    student: OneStudent = "",
    until: Annotated[
        str, option("--until", "The new deadline: 2026-10-05T23:59:00-07:00, or a day.")
    ] = "",
    reason: Reason = "",
    section: Annotated[
        str, option("--section", "Extend the deadline of everybody in this section.")
    ] = "",
    rows: Annotated[
        Path | None,
        option(
            "--from",
            "Extend several students' deadlines: columns student, until, reason.",
            "FILE.csv",
        ),
    ] = None,
    apply: Apply = False,
    by: Who = "",
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Give students a later deadline."""
    _require_one("extend", {"STUDENT": student, "--section": section, "--from": rows})
    options = "--until, or --from with a column until"
    require_one_of_two("extend", options, bool(until), bool(rows))
    if not rows:
        _require_reason(reason)

    def decided(whole: Class) -> list[Decision]:
        if rows:
            return decisions.read(rows, whole, column="until", reason=reason, anyway=True)
        at = policies.when(until, what="--until", zone=whole.rules.time_zone)
        who = _in_section(whole, section) if section else [whole.find(student)]
        return [Decision(student=one, until=at, reason=reason) for one in who]

    with class_of(book, course_folder, rules_file, writes=True) as whole:
        _decide(whole, decided, by=by, keep=None if student else apply)


def _decide(
    whole: Class, decided: Callable[[Class], list[Decision]], *, by: str, keep: bool | None
) -> None:
    """Write decisions and show what they changed; `keep` is None for one student."""
    found = decided(whole)
    rules = whole.rules
    before = {one.student.id: texts.grade_and_deadline(rules, one) for one in whole.standings()}
    with whole.book.decisions.together(keep=keep is not False):
        decisions.write(whole, found, who=by)
        after = {one.student.id: one for one in whole.standings()}
        notes = list(decisions.notes(rules, after, found, datetime.now(UTC)))
    for student in dict.fromkeys(one.student for one in found):
        now = texts.grade_and_deadline(rules, after[student])
        lines = texts.changed(before[student], now)
        if keep is None:
            lines = now if found[0].until else now[:1]
        files.say("".join(f"{one_line(line, 500)}\n" for line in lines), needed=False)
    for note in notes:
        print(f"grader: {one_line(note, 300)}", file=sys.stderr)
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


def _require_one(command: str, given: Mapping[str, object]) -> None:
    found = [name for name, value in given.items() if value]
    if len(found) != 1:
        *others, last = given
        expected = f"{', '.join(others)} or {last}"
        raise UsageError(f"{command}: expected {expected}, found {' and '.join(found) or 'none'}")


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise UsageError(
            "--reason is missing or empty: expected the reason, which the student's report shows"
        )


def require_points(points: float | None) -> None:
    """Refuse an infinite number of points."""
    if points is not None and not points < policies.MOST:
        raise UsageError(f"--points {points:g}: expected a number of points, such as 4.5")
