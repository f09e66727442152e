"""The records that the modules for a class exchange: students, submissions and standings."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from kit.text import one_line


class Student(msgspec.Struct, frozen=True, kw_only=True):
    """One student.

    Attributes:
        id: Identifies the student in the gradebook: the roster's id or, without a roster, the key
            from the file's name.
        name: The name; empty if unknown.
        email: The e-mail address; empty if unknown.
        section: The section, which may have a deadline of its own; empty if there is none.
        columns: All other columns of the roster.
        listed: Whether the roster has the student; True without a roster.
    """

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    columns: dict[str, str] = {}
    listed: bool = True


def called(student: Student) -> str:
    """A student's name and id, safe to print."""
    text = f"{student.name} ({student.id})" if student.name else student.id
    return one_line(text, 100)


class HandedIn(msgspec.Struct, frozen=True, kw_only=True):
    """One file or folder in a class's folder, before it is read.

    Attributes:
        path: The file or folder.
        parts: The files of a submission that has several, by their names in it; empty for one file
            or folder.
        key: The student's id, name or e-mail address, from the file's name or metadata.
        known_as: Other ids, names and addresses in its metadata.
        student_name: The name in its metadata; empty if there is none.
        email: The address in its metadata; empty if there is none.
        submitted_at: When it was handed in, with a time zone; None if unknown.
        late: Whether its name says that it was late.
        number: Its place among its student's attempts, from its name or metadata; None if unknown.
        doubt: Why a person has to decide whether it counts; empty if there is no doubt. A doubtful
            submission is stored, but not graded.
    """

    path: Path
    parts: tuple[tuple[str, Path], ...] = ()
    key: str
    known_as: tuple[str, ...] = ()
    student_name: str = ""
    email: str = ""
    submitted_at: datetime | None = None
    late: bool = False
    number: int | None = None
    doubt: str = ""


class State(StrEnum):
    """The state of a student's grade.

    Attributes:
        GRADED: There is a score.
        MISSING: The student handed in nothing.
        REFUSED: The submission cannot be graded, such as a broken zip: a person has to decide.
        NOT_GRADED: The submission has not been graded yet.
        GRADER_ERROR: The grader failed, which must not cost a point: grade the submission again.
    """

    GRADED = "graded"
    MISSING = "missing"
    REFUSED = "refused"
    NOT_GRADED = "not_graded"
    GRADER_ERROR = "grader_error"

    @property
    def words(self) -> str:
        """The state in words, for people."""
        return self.value.replace("_", " ")


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """Points that a person gave, which replace the grader's.

    Attributes:
        problem: The problem that the points are for; empty for the total.
        points: The points.
        who: Who gave them.
        reason: Why.
        at: When, with a zone.
    """

    problem: str
    points: float
    who: str
    reason: str
    at: datetime


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wrote about a student's work.

    Attributes:
        id: Its number in the gradebook.
        problem: The problem that it is about; empty for the whole submission.
        text: The comment.
        attempt: The number of the attempt that it is about; 0 if the student had none.
    """

    id: int
    problem: str
    text: str
    attempt: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a regrade request.

    Attributes:
        accepted: Whether it was accepted; otherwise it was refused.
        points: The points for the problem that came with it; None if there were none.
        reason: Why.
    """

    accepted: bool
    points: float | None
    reason: str

    @property
    def word(self) -> str:
        """The answer in one word."""
        return "accepted" if self.accepted else "refused"


class RegradeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A student's wish that a person look at a test again.

    Attributes:
        id: Its number in the gradebook.
        student: The student's id.
        attempt: The number of the attempt.
        problem: The problem.
        test: The test.
        evidence: How the test had ended when the request was stored.
        text: What the student says.
        at: When it was stored, in UTC.
        answer: The last answer; None while it is open.
    """

    id: int
    student: str
    attempt: int
    problem: str
    test: str
    evidence: str
    text: str
    at: str
    answer: Answer | None = None


# What became of something that was sent to another system; "sent" if that is not known yet.
PushEvent = Literal["sent", "done", "failed"]


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent to another system about a student.

    Attributes:
        points: All points that were sent.
        has_arrived: Whether the other system ever confirmed any.
        comments: For the mark of each comment, what became of it, and when.
    """

    points: list[float] = []
    has_arrived: bool = False
    comments: dict[str, tuple[PushEvent, datetime]] = {}


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A student's grade, and how it was determined.

    Attributes:
        student: The student.
        state: Whether there is a grade, and if not, why.
        points: The points for the gradebook, after late penalty and overrides; None if there are
            none yet.
        score: The grader's score, before late penalty and overrides; None if there is none.
        max_score: The most points that the assignment can give.
        pending: Points that only a run on another device can give.
        problems: The grader's score for each problem.
        attempt: The number of the attempt that counts, from 1; 0 if there is none.
        attempts: How many attempts there are.
        sources: The hash of the sources of the attempt that counts; None if there are none.
        submitted_at: When the attempt that counts was handed in; None if unknown.
        deadline: When it was due, with the student's extension; None if there is no deadline.
        days_late: Days late that are charged, after grace and free late days.
        free_days: Late days that cost nothing.
        penalty: The late penalty, in per cent of the score.
        overrides: The overrides by people, oldest first.
        comments: The comments by people, oldest first.
        requests: The student's regrade requests, oldest first.
        why: Why there is no grade, or what else a person has to look at; empty if nothing.
    """

    student: Student
    state: State
    points: float | None = None
    score: float | None = None
    max_score: float
    pending: float = 0.0
    problems: dict[str, float] = {}
    attempt: int = 0
    attempts: int = 0
    sources: str | None = None
    submitted_at: datetime | None = None
    deadline: datetime | None = None
    days_late: int = 0
    free_days: int = 0
    penalty: float = 0.0
    overrides: list[Override] = []
    comments: list[Comment] = []
    requests: list[RegradeRequest] = []
    why: str = ""
