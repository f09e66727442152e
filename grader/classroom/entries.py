"""Which entries of a gradebook are one student, and which were renamed or removed.

A row of the table `change` merges an entry with another one, gives it another id or name, removes
it, or undoes an earlier change. No other row of the gradebook changes: each attempt and decision
keeps the entry that it was stored with, so that an undone change leaves everything as it was.
"""

import sqlite3
from collections.abc import Mapping
from typing import Literal

import msgspec

from grader.classroom.records import Student

Kind = Literal["merge", "rename", "remove"]


class EntryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an entry that counts.

    Attributes:
        id: Its number in the gradebook.
        kind: What it does.
        student: The entry that it changes.
        becomes: The id under which everything of the entry is found from now on.
        name: The student's new name; empty if it stays.
        reason: Why.
        who: Who made it.
        at: When, in UTC.
    """

    id: int
    kind: Kind
    student: str
    becomes: str
    name: str
    reason: str
    who: str
    at: str

    @property
    def words(self) -> str:
        """What it does, for people."""
        why = f" ({self.reason})" if self.reason else ""
        if self.kind == "merge":
            return f"{self.student} and {self.becomes} are one student{why}"
        if self.kind == "remove":
            return f"{self.student} was removed{why}"
        name = f" with the name {self.name}" if self.name else ""
        return f"{self.student} is {self.becomes}{name} from now on{why}"


class Entries:
    """The changes of a gradebook's students that count.

    Args:
        database: The gradebook's database.
    """

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

    def is_former(self, entry: str) -> bool:
        """Whether an entry is found under the id of another one."""
        return self.id_of(entry) != entry

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
    columns: Mapping[str, str] = {}
    for one in entries:
        columns = {**one.columns, **columns}
    return Student(
        id=student,
        name=name or next((one.name for one in entries if one.name), ""),
        email=next((one.email for one in entries if one.email), ""),
        section=next((one.section for one in entries if one.section), ""),
        columns=dict(columns),
        listed=any(one.listed for one in entries),
    )
