"""The gradebook: one SQLite file with every attempt, its sources, and every result.

Nothing is ever overwritten: a regrade adds results next to the old ones, and the rows of the table
`applied` select the setups whose results count: each adds a step or undoes the last one, and a row
whose `why` is "together" belongs to the step before it. A grade belongs to sources and a setup, not
to a student, so identical sources are graded and stored once. The writing process holds a lock; all
other processes only read.

Each of its parts reads and writes a few tables.
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from grader.classroom import database
from grader.classroom.merged_students import EnrolledStudents
from grader.classroom.setups import StoredSetups
from grader.classroom.stored_attempts import Attempts
from grader.classroom.stored_decisions import Decisions, Feedback, Pushes
from grader.classroom.stored_results import Results
from grader.course import late_policy
from grader.course.late_policy import Policy

MAX_FILE_NAME = 200  # bytes; file systems allow 255, with a suffix and a mark for a temporary file
HASH_DIGITS = 16  # so many that nobody finds two ids with one hash
HASHED = re.compile(rf"-[0-9a-f]{{{HASH_DIGITS}}}$")


class BookCourse(msgspec.Struct, frozen=True):
    """The course of a gradebook: its folder, empty for the grader's own, and the title there."""

    folder: str
    title: str


class Gradebook:
    """An open gradebook and its parts; see `reading` and `writing`."""

    def __init__(self, path: Path, opened: sqlite3.Connection) -> None:
        self.path = path
        self._database = opened
        self.students = EnrolledStudents(opened)
        self.attempts = Attempts(opened)
        self.setups = StoredSetups(opened)
        self.results = Results(opened)
        self.decisions = Decisions(opened)
        self.feedback = Feedback(opened)
        self.pushes = Pushes(opened)

    @property
    def course(self) -> BookCourse | None:
        """The course of the last batch; None for a gradebook that an older grader wrote."""
        text = self._fact("course")
        return None if text is None else msgspec.json.decode(text, type=BookCourse)

    @course.setter
    def course(self, course: BookCourse) -> None:
        self._store("course", course)

    def _fact(self, name: str) -> str | None:
        row = self._database.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return row and str(row["value"])

    def _store(self, name: str, value: object) -> None:
        text = msgspec.json.encode(value).decode()
        with self._database as db:
            db.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, text))

    def policy(self) -> Policy | None:
        """The stored rules, checked as those of a policy; None if none were ever stored."""
        text = self._fact("policy")
        if text is None:
            return None
        policy = late_policy.from_keys(msgspec.json.decode(text))
        late_policy.check(self.path, policy)
        return policy

    def remember(self, policy: Policy) -> None:
        self._store("policy", late_policy.as_keys(policy))


@contextmanager
def reading(path: Path) -> Iterator[Gradebook]:
    """Open a gradebook for reading; see `database.to_read`."""
    with database.to_read(path) as opened:
        yield Gradebook(path, opened)


@contextmanager
def writing(path: Path, *, create: bool = False) -> Iterator[Gradebook]:
    """Open a gradebook as its only writer, or create it; see `database.to_write`."""
    with database.to_write(path, create=create) as opened:
        yield Gradebook(path, opened)


def file_name(student: str) -> str:
    """A safe file name that no other id has: the student's id, or a part of it and a hash."""
    safe = re.sub(r"[^\w.@+-]", "_", student).lstrip(".")[:100]
    safe = safe.encode()[:MAX_FILE_NAME].decode("utf-8", "ignore")
    if safe == student and not HASHED.search(student):
        return safe
    return f"{safe}-{hashlib.sha256(student.encode()).hexdigest()[:HASH_DIGITS]}"
