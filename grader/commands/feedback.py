"""The commands for comments on a student's work, and for regrade requests."""

from typing import Annotated

from grader.base import files
from grader.base.errors import UsageError, no_such
from grader.classroom import texts
from grader.classroom.attempts import Attempt
from grader.classroom.gradebook import Gradebook
from grader.commands.classes import BookOption, RulesOption, StudentId, class_of
from grader.commands.deciding import require_points
from grader.commands.options import Folder, app, argument, chosen, option, require_one_of_two
from grader.report.wording import MAX_TEXT
from grader.results.records import TestResult
from kit.text import counted, one_line


@app.command()
def comment(
    student: StudentId,
    book: BookOption,
    text: Annotated[str, option("--text", "The comment.")] = "",
    again: Annotated[str, option("--again", "Use the comment of this name again.", "NAME")] = "",
    name: Annotated[str, option("--name", "A name for the comment, for --again later.")] = "",
    problem: Annotated[
        str, option("--problem", "The problem it is about (default: the submission).")
    ] = "",
    remove: Annotated[
        int | None, option("--remove", "Withdraw the comment of this number.", min=1)
    ] = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Write a comment into a student's reports, or use one again that was written before."""
    if sum([bool(text), bool(again), remove is not None]) != 1:
        raise UsageError("comment: expected one of --text, --again and --remove, with a value")
    if name and not text:
        raise UsageError("comment: --name needs --text")
    with class_of(book, course_folder, rules_file, writes=True) as whole:
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
    problem: Annotated[str, option("--problem", "The problem of the test.")],
    test: Annotated[str, option("--test", "The test, as the report names it.")],
    text: Annotated[str, option("--text", "What the student says.")],
    attempt: Annotated[
        int | None, option("--attempt", "The attempt (default: the one that counts).", min=1)
    ] = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Store a student's regrade request, together with how the test ended.

    `grader status` lists open requests, and `grader answer` answers them.
    """
    said = _line(text, "--text")
    with class_of(book, course_folder, rules_file, writes=True) as whole:
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
    number: Annotated[int, argument("The number of the regrade request.", "REQUEST", min=1)],
    book: BookOption,
    reason: Annotated[str, option("--reason", "The reason, which the student's report contains.")],
    accept: Annotated[bool, option("--accept", "Accept the request.")] = False,
    refuse: Annotated[bool, option("--refuse", "Refuse the request.")] = False,
    points: Annotated[
        float | None, option("--points", "With --accept: the points for the problem.", min=0)
    ] = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Answer a regrade request; the student's reports contain the answer and the reason.

    Accept it with points, or correct the test and run `grader regrade`. The last answer counts.
    """
    require_one_of_two("answer", "either --accept or --refuse", accept, refuse)
    if refuse and points is not None:
        raise UsageError("answer: --points needs --accept")
    require_points(points)
    why = _line(reason, "--reason")
    with class_of(book, course_folder, rules_file, writes=True) as whole:
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
        text = texts.grade(whole.standing(asked.student))
        if accept and points is None:
            text += (
                "\nno points changed: correct the test and run `grader regrade`, or give --points"
            )
        files.say(f"{text}\n", needed=False)
