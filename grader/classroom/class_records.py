"""The records that the modules for a class exchange: students, submissions and standings."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from grader.report.gradebook_notes import FinalGrade
from kit.safe_text import one_line


class Student(msgspec.Struct, frozen=True, kw_only=True):
    # The roster's id or, without a roster, the key from the file's name.
    id: str
    name: str = ""  # the name; empty if unknown
    email: str = ""  # the e-mail address; empty if unknown
    section: str = ""  # the section, which may have a deadline of its own; empty if there is none
    columns: dict[str, str] = {}  # all other columns of the roster
    listed: bool = True  # whether the roster has the student; True without a roster


def called(student: Student) -> str:
    """A student's name and id, safe to print."""
    text = f"{student.name} ({student.id})" if student.name else student.id
    return one_line(text, 100)


class HandedIn(msgspec.Struct, frozen=True, kw_only=True):
    """One file or folder in a class's folder, before it is read."""

    path: Path  # the file or folder
    # The files of a submission that has several, by their names in it.
    parts: tuple[tuple[str, Path], ...] = ()
    key: str  # the student's id, name or e-mail address, from the file's name or metadata
    known_as: tuple[str, ...] = ()  # other ids, names and addresses in its metadata
    student_name: str = ""  # the name in its metadata; empty if there is none
    email: str = ""  # the address in its metadata; empty if there is none
    submitted_at: datetime | None = None  # when it was handed in, with a time zone; None if unknown
    late: bool = False  # whether its name says that it was late
    # Its place among its student's attempts, from its name or metadata; None if unknown.
    number: int | None = None
    # Why a person has to decide whether it counts: it is stored, but not graded.
    doubt: str = ""


class State(StrEnum):
    GRADED = "graded"
    MISSING = "missing"  # the student handed in nothing
    REFUSED = "refused"  # it cannot be graded, such as a broken zip: a person has to decide
    NOT_GRADED = "not_graded"
    GRADER_ERROR = "grader_error"  # which must not cost a point: grade the submission again

    @property
    def words(self) -> str:
        """The state in words, for people."""
        return self.value.replace("_", " ")


# What became of something that was sent to another system; "sent" if that is not known yet.
PushEvent = Literal["sent", "done", "failed"]


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent to another system about a student."""

    points: list[float] = []  # all points that were sent
    has_arrived: bool = False  # whether the other system ever confirmed any
    # For the mark of each comment, what became of it, and when.
    comments: dict[str, tuple[PushEvent, datetime]] = {}


class Standing(FinalGrade, frozen=True, kw_only=True):
    """A student's grade, and how it was determined."""

    student: Student
    state: State  # whether there is a grade, and if not, why
    max_score: float
    # The grader's score, before late penalty and overrides; None if there is none.
    score: float | None = None
    pending: float = 0.0  # points that only a run on another device can give
    problems: dict[str, float] = msgspec.field(default_factory=dict)
    attempts: int = 0  # how many attempts there are
    # The hash of the sources of the attempt that counts; None if there are none.
    sources: str | None = None
    submitted_at: datetime | None = None
    # When it was due, with the student's extension; None if there is no deadline.
    deadline: datetime | None = None
