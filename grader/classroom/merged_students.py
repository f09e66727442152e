"""Which entries of a gradebook are one student, and which were renamed or removed.

A row of the table `change` merges an entry with another one, gives it another id or name, removes
it, or undoes an earlier change. No other row of the gradebook changes: each attempt and decision
keeps the entry that it was stored with, so that an undone change leaves everything as it was.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import msgspec

from grader.classroom import database
from grader.classroom.class_records import Student

Kind = Literal["merge", "rename", "remove"]
Record = TypeVar("Record", bound=msgspec.Struct)


class EntryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an entry that counts."""

    id: int  # its number in the gradebook
    kind: Kind  # what it does
    student: str  # the entry that it changes
    becomes: str  # the id under which everything of the entry is found from now on
    name: str  # the student's new name; empty if it stays
    reason: str  # why
    who: str  # who made it
    at: str  # when, in UTC

    @property
    def words(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        if self.kind == "merge":
            return f"{self.student} and {self.becomes} are one student{why}"
        if self.kind == "remove":
            return f"{self.student} was removed{why}"
        name = f" with the name {self.name}" if self.name else ""
        return f"{self.student} is {self.becomes}{name} from now on{why}"


class Entries:
    def __init__(self, database: sqlite3.Connection) -> None:
        rows = database.execute(
            "SELECT id, kind, student, becomes, name, reason, who, at FROM change"
            " WHERE kind != 'undo' AND id NOT IN"
            " (SELECT undoes FROM change WHERE undoes IS NOT NULL) ORDER BY id"
        )
        self.changes = [EntryChange(**dict(row)) for row in rows]
        self._next = {c.student: c.becomes for c in self.changes if c.becomes != c.student}

    def id_of(self, entry: str) -> str:
        """The id of the student to whom an entry belongs."""
        for _ in range(len(self._next) + 1):  # the commands make no circle
            entry = self._next.get(entry, entry)
        return entry

    def of(self, student: str) -> list[str]:
        """All entries of a student: the own one first."""
        return [student, *(entry for entry in self._next if self.id_of(entry) == student)]

    @property
    def removed(self) -> dict[str, EntryChange]:
        """The students who were removed, by id."""
        return {self.id_of(c.student): c for c in self.changes if c.kind == "remove"}

    def students(self, rows: list[Student]) -> list[Student]:
        """The students, by id, each with what all entries know: first the own one."""
        groups: dict[str, list[Student]] = {}
        for one in rows:
            groups.setdefault(self.id_of(one.id), []).append(one)
        names = {self.id_of(c.student): c.name for c in self.changes if c.name}
        return [_joined(student, groups[student], names.get(student)) for student in sorted(groups)]

    def last(self, student: str, kind: Kind) -> EntryChange | None:
        """The last change of this kind that a student, or one of the entries, went through."""
        found = [
            c
            for c in self.changes
            if c.kind == kind and student in (c.student, self.id_of(c.student))
        ]
        return found[-1] if found else None


def _joined(student: str, entries: list[Student], name: str | None) -> Student:
    entries = sorted(entries, key=lambda one: (one.id != student, one.id))
    return Student(
        id=student,
        name=name or next((one.name for one in entries if one.name), ""),
        email=next((one.email for one in entries if one.email), ""),
        section=next((one.section for one in entries if one.section), ""),
        columns={key: text for one in reversed(entries) for key, text in one.columns.items()},
        listed=any(one.listed for one in entries),
    )


def of_row(kind: type[Record], row: sqlite3.Row, **others: object) -> Record:
    """A record whose fields are the columns of these names, except for the others."""
    same = {name: row[name] for name in kind.__struct_fields__ if name not in others}
    return kind(**same, **others)


class BookPart:
    def __init__(self, opened: sqlite3.Connection) -> None:
        self._db = opened

    @property
    def entries(self) -> Entries:
        return Entries(self._db)

    @contextmanager
    def _writes(self) -> Iterator[sqlite3.Connection]:
        """A transaction, unless one is under way already."""
        if self._db.in_transaction:
            yield self._db
            return
        with self._db:
            yield self._db

    def _add(self, table: str, **values: object) -> int:
        """Add a row with the user who decided it, and when; return its number."""
        values |= {"who": database.user(), "at": database.now()}
        return int(self._insert(f"INTO {table}", **values).lastrowid or 0)

    def _insert(self, into: str, **values: object) -> sqlite3.Cursor:
        """Add a row with these columns, as in `INSERT OR IGNORE INTO setup`."""
        marks = ", ".join("?" * len(values))
        query = f"INSERT {into} ({', '.join(values)}) VALUES ({marks})"
        return self._db.execute(query, tuple(values.values()))


class EnrolledStudents(BookPart):
    @property
    def has_roster(self) -> bool:
        """Whether a roster was read into the gradebook."""
        return bool(self._db.execute("SELECT * FROM fact WHERE name = 'roster'").fetchone())

    def enrol(self, students: Iterable[Student], *, roster: bool = False) -> None:
        """Add students, or replace their stored data.

        A former id of a student whom the roster has by another id keeps its data. After a roster,
        all other students are on none any more, and later calls without a roster reuse it.
        """
        entries = self.entries
        with self._db as db:
            if roster:
                db.execute("INSERT OR REPLACE INTO fact VALUES ('roster', ?)", (database.now(),))
                db.execute("UPDATE student SET listed = 0")
            db.executemany(
                "INSERT INTO student VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " name = excluded.name, email = excluded.email, section = excluded.section,"
                " columns = excluded.columns, listed = excluded.listed",
                [
                    (s.id, s.name, s.email, s.section, json.dumps(s.columns), int(s.listed))
                    for s in students
                    if s.listed or entries.id_of(s.id) == s.id
                ],
            )

    def all(self, *, removed: bool = False) -> list[Student]:
        """All students, by id, without those who are on no roster and have nothing here."""
        entries = self.entries
        found = entries.students(
            [
                of_row(Student, row, columns=json.loads(row["columns"]), listed=bool(row["listed"]))
                for row in self._db.execute("SELECT * FROM student ORDER BY id")
            ]
        )
        left_out = {} if removed else entries.removed
        work = self.with_work()
        return [one for one in found if one.id not in left_out and (one.listed or one.id in work)]

    def with_work(self) -> set[str]:
        """The ids of the students who handed in anything, or about whom a person decided."""
        tables = ("attempt", "override", "extension", "comment", "request", "push")
        query = " UNION ".join(f"SELECT student FROM {table}" for table in tables)
        id_of = self.entries.id_of
        return {id_of(row["student"]) for row in self._db.execute(query)}

    def change(
        self, kind: Kind, student: str, *, becomes: str = "", name: str = "", reason: str
    ) -> None:
        """Merge an entry with another one, rename it, or remove it; what is empty stays."""
        with self._writes() as db:
            if kind == "rename" and becomes:
                # Without data of its own, it has that of the entry that it renames.
                db.execute(
                    "INSERT OR IGNORE INTO student VALUES (?, '', '', '', '{}', 0)", (becomes,)
                )
            values = {"becomes": becomes or student, "name": name, "reason": reason}
            self._add("change", kind=kind, student=student, **values)

    def undo_change(self, change: EntryChange, *, reason: str) -> None:
        """Undo a change. After a rename, what was stored under the new id stays the student's."""
        old, new = change.student, change.becomes
        with self._writes():
            same = {"name": "", "reason": reason}
            self._add("change", kind="undo", student=old, becomes="", undoes=change.id, **same)
            if change.kind == "rename" and new != old and new in {one.id for one in self.all()}:
                self._add("change", kind="merge", student=new, becomes=old, **same)
