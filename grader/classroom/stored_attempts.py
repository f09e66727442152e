"""What students handed in: their attempts, and the sources of each, stored once and compressed."""

import hashlib
import zlib
from collections import Counter
from datetime import UTC, datetime

import msgspec

from grader.base.errors import UsageError
from grader.classroom import database
from grader.classroom.merged_students import BookPart, of_row
from grader.report import json_report
from grader.report.json_report import MAX_TEXT
from grader.results.result_records import Ignored
from grader.submission.submissions import Submission
from kit import handing_in
from kit.safe_text import one_line


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    id: int  # its number in the gradebook, in the order in which attempts were added
    student: str  # the student's id
    name: str  # the name of the file or folder, safe to print
    submitted_at: datetime | None  # when it was handed in; None if unknown
    late: bool  # whether its name said that it was late
    number: int  # its place among the student's attempts by its name or metadata; 0 if unknown
    sources: str | None  # the hash of its sources; None if it was refused
    ignored: list[Ignored]  # its files that are not graded
    refused: str  # why it cannot be graded; empty if it can


class Attempts(BookPart):
    def add(
        self,
        student: str,
        name: str,
        what: Submission | str,
        *,
        identity: str = "",
        submitted_at: datetime | None = None,
        late: bool = False,
        number: int = 0,
    ) -> bool:
        """Add an attempt unless the gradebook has it; return whether it is new.

        An attempt with a time is already known if the gradebook has the same sources (for a refused
        attempt, the same bytes, whose hash is the `identity`) with that time. An attempt without a
        time is already known only if it equals the student's last attempt of that name; returning
        to an earlier version therefore counts as a new attempt.
        """
        submission = what if isinstance(what, Submission) else None
        hashed = submission.sha256 if submission else f"refused {identity}"
        ignored = msgspec.json.encode(submission.ignored if submission else []).decode()
        at = text_of(submitted_at)
        entries = self.entries
        same = entries.of(entries.id_of(student))
        earlier = self._db.execute(
            f"SELECT identity FROM attempt WHERE student IN ({', '.join('?' * len(same))})"
            " AND submitted_at = ? AND (submitted_at != '' OR (name = ? AND number = ?))"
            " ORDER BY id DESC",
            (*same, at, name, number),
        ).fetchall()
        if hashed in [row["identity"] for row in (earlier if at else earlier[:1])]:
            return False
        values = {"student": student, "identity": hashed, "submitted_at": at, "late": int(late)}
        values |= {"number": number, "name": name, "sources": hashed if submission else None}
        refused = "" if submission else what
        with self._db:
            self._insert(
                "INTO attempt", **values, ignored=ignored, refused=refused, added_at=database.now()
            )
            if submission:
                self._store(hashed, submission.sources)
        return True

    def _store(self, sha256: str, sources: dict[str, bytes]) -> None:
        for path, content in sources.items():
            key = hashlib.sha256(content).digest()
            compressed = zlib.compress(content, 9)
            self._db.execute("INSERT OR IGNORE INTO content VALUES (?, ?)", (key, compressed))
            self._db.execute("INSERT OR IGNORE INTO source VALUES (?, ?, ?)", (sha256, path, key))

    def all(self, student: str | None = None) -> list[Attempt]:
        """The attempts of one student or of all; each student's in the order of submission."""
        entries = self.entries
        wanted = entries.of(student) if student else []
        where = f"WHERE student IN ({', '.join('?' * len(wanted))})" if student else ""
        rows = self._db.execute(
            f"SELECT * FROM attempt {where} ORDER BY submitted_at, number, id", wanted
        )
        found = [
            of_row(
                Attempt,
                row,
                student=entries.id_of(row["student"]),
                name=one_line(row["name"], MAX_TEXT),
                submitted_at=datetime.fromisoformat(at) if (at := row["submitted_at"]) else None,
                late=bool(row["late"]),
                ignored=json_report.decoded(row["ignored"], list[Ignored]),
                refused=one_line(row["refused"], MAX_TEXT),
            )
            for row in rows
        ]
        return sorted(found, key=lambda one: one.student)  # stable, so the order above is kept

    def submission(self, sources: str) -> Submission:
        """The stored sources with this hash, by the name of the first attempt; or a UsageError."""
        rows = self._db.execute(
            "SELECT path, compressed FROM source JOIN content ON content = sha256"
            " WHERE sources = ? ORDER BY path",
            (sources,),
        )
        files, left = {}, handing_in.MAX_BYTES  # several rows may name one content
        for row in rows:
            files[row["path"]] = database.unpacked(row["compressed"], left)
            left -= len(files[row["path"]])
        first = self._db.execute(
            "SELECT name, ignored FROM attempt WHERE sources = ? ORDER BY id", (sources,)
        ).fetchone()
        ignored = json_report.decoded(first["ignored"], list[Ignored])
        found = Submission(one_line(first["name"], MAX_TEXT), files, ignored)
        if found.sha256 != sources:
            raise UsageError(
                f"the stored files of {first['name']} are not those of one submission "
                "(their hash is another one); hand it in again"
            )
        return found

    def paths(self) -> dict[str, set[str]]:
        """The paths of the files of each submission, by the hash of its sources."""
        found: dict[str, set[str]] = {}
        for row in self._db.execute("SELECT sources, path FROM source"):
            found.setdefault(row["sources"], set()).add(row["path"])
        return found

    def numbers(self) -> dict[int, int]:
        """For the id of each attempt, its place among its student's attempts, from 1."""
        found: dict[int, int] = {}
        count: Counter[str] = Counter()
        for one in self.all():
            count[one.student] += 1
            found[one.id] = count[one.student]
        return found


def text_of(when: datetime | None) -> str:
    """A time in UTC, so that sorting the texts sorts the times; empty if unknown."""
    return when.astimezone(UTC).isoformat(timespec="seconds") if when else ""
