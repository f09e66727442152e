"""The gradebook: one SQLite file with every attempt, its sources, and every result.

Nothing is ever overwritten: a regrade adds results next to the old ones, and the rows of the table
`applied` select the setups whose results count: each adds a step or undoes the last one, and a row
whose `why` is "together" belongs to the step before it. A grade belongs to sources and a setup, not
to a student, so identical sources are graded and stored once. The writing process holds a lock; all
other processes only read.

The gradebook stores a submission's sources, compressed, with identical files stored once; its
result as compressed JSON; and each problem's score, so that a table of the class needs no JSON.
"""

import hashlib
import json
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import msgspec

from grader.base.errors import UsageError
from grader.classroom import database, setups
from grader.classroom.entries import Entries, EntryChange, Kind
from grader.classroom.records import (
    Answer,
    Comment,
    Override,
    Pushed,
    PushEvent,
    RegradeRequest,
    Student,
)
from grader.classroom.setups import Setup
from grader.course import policies
from grader.course.policies import Policy
from grader.report import json_report
from grader.report.json_report import MAX_TEXT
from grader.results.merge import merged
from grader.results.records import Ignored, SubmissionResult
from grader.submission.submissions import Submission
from kit import handing_in
from kit.text import one_line

MAX_FILE_NAME = 200  # bytes; file systems allow 255, with a suffix and a mark for a temporary file
HASH_DIGITS = 16  # so many that nobody finds two ids with one hash
HASHED = re.compile(rf"-[0-9a-f]{{{HASH_DIGITS}}}$")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a student handed in.

    Attributes:
        id: Its number in the gradebook, in the order in which attempts were added.
        student: The student's id.
        name: The name of the file or folder, safe to print.
        submitted_at: When it was handed in; None if unknown.
        late: Whether its name said that it was late.
        number: Its place among the student's attempts by its name or metadata; 0 if unknown.
        sources: The hash of its sources; None if it was refused.
        ignored: Its files that are not graded.
        refused: Why it cannot be graded; empty if it can.
    """

    id: int
    student: str
    name: str
    submitted_at: datetime | None
    late: bool
    number: int
    sources: str | None
    ignored: list[Ignored]
    refused: str


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result of some sources, without its tests.

    Attributes:
        id: Its number in the gradebook.
        sources: The hash of the sources.
        score: Points earned.
        max_score: Points that could be earned in this run.
        pending: Points of tests that need another device.
        fault: The grader's own failure, in one line; empty if there was none.
        problems: The score of each problem.
    """

    id: int
    sources: str
    score: float
    max_score: float
    pending: float
    fault: str
    problems: dict[str, float]


class Gradebook:
    """An open gradebook; see `reading` and `writing`."""

    def __init__(self, path: Path, opened: sqlite3.Connection) -> None:
        self.path = path
        self._database = opened

    # --- students and attempts --------------------------------------------------------------------

    @property
    def has_roster(self) -> bool:
        """Whether a roster was read into the gradebook."""
        return bool(self._database.execute("SELECT * FROM fact WHERE name = 'roster'").fetchone())

    def enrol(self, students: Iterable[Student], *, roster: bool = False) -> None:
        """Add students, or replace their stored data.

        A former id of a student whom the roster has by another id keeps its data.

        Args:
            students: The students.
            roster: Whether they come from a roster; later calls without a roster reuse it.
        """
        entries = self.entries
        with self._database as db:
            if roster:
                db.execute("INSERT OR REPLACE INTO fact VALUES ('roster', ?)", (database.now(),))
            db.executemany(
                "INSERT INTO student VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " name = excluded.name, email = excluded.email, section = excluded.section,"
                " columns = excluded.columns, listed = excluded.listed",
                [
                    (s.id, s.name, s.email, s.section, json.dumps(s.columns), int(s.listed))
                    for s in students
                    if s.listed or not entries.is_former(s.id)
                ],
            )

    def policy(self) -> Policy | None:
        """The rules stored in the gradebook; None if none were ever stored.

        Raises:
            UsageError: They are no rules that a policy could have.
        """
        row = self._database.execute("SELECT value FROM fact WHERE name = 'policy'").fetchone()
        if not row:
            return None
        policy = msgspec.json.decode(row["value"], type=Policy)
        policies.check(self.path, policy)
        return policy

    def remember(self, policy: Policy) -> None:
        """Store the rules for all later commands."""
        text = msgspec.json.encode(policy).decode()
        with self._database as db:
            db.execute("INSERT OR REPLACE INTO fact VALUES ('policy', ?)", (text,))

    @property
    def entries(self) -> Entries:
        """Which entries are one student, and which were renamed or removed."""
        return Entries(self._database)

    def students(self, *, removed: bool = False) -> list[Student]:
        """All students, by id.

        Args:
            removed: Whether to include those who were removed.
        """
        entries = self.entries
        found = entries.students(self._rows_of_students())
        left_out = {} if removed else entries.removed
        return [one for one in found if one.id not in left_out]

    def _rows_of_students(self) -> list[Student]:
        rows = self._database.execute("SELECT * FROM student ORDER BY id")
        return [
            Student(
                id=row["id"],
                name=row["name"],
                email=row["email"],
                section=row["section"],
                columns=json.loads(row["columns"]),
                listed=bool(row["listed"]),
            )
            for row in rows
        ]

    def change(
        self, kind: Kind, student: str, *, becomes: str = "", name: str = "", reason: str, who: str
    ) -> None:
        """Merge an entry with another one, rename it, or remove it.

        Args:
            kind: What to do.
            student: The student's id.
            becomes: The id of the other entry, or the new id; empty if the id stays.
            name: The new name; empty if it stays.
            reason: Why.
            who: Who decided it; the user of this program by default.
        """
        with self._writes() as db:
            if kind == "rename" and becomes:
                # Without data of its own, it has that of the entry that it renames.
                db.execute(
                    "INSERT OR IGNORE INTO student VALUES (?, '', '', '', '{}', 0)", (becomes,)
                )
            values = {"becomes": becomes or student, "name": name, "reason": reason, "who": who}
            self._add("change", kind=kind, student=student, **values)

    def undo_change(self, change: EntryChange, *, reason: str, who: str) -> None:
        """Undo a change. After a rename, what was stored under the new id stays the student's."""
        with self._writes() as db:
            same = {"student": change.student, "reason": reason, "who": who}
            self._add("change", kind="undo", becomes="", name="", undoes=change.id, **same)
            if change.kind != "rename" or change.becomes == change.student:
                return
            used = [
                f"SELECT student FROM {table} WHERE student = :id"
                for table in ("attempt", "override", "extension", "comment", "request", "push")
            ]
            used += [
                "SELECT student FROM change WHERE student = :id",
                "SELECT id FROM student WHERE id = :id AND (listed OR name || email != '')",
            ]
            if db.execute(" UNION ALL ".join(used), {"id": change.becomes}).fetchone() is None:
                db.execute("DELETE FROM student WHERE id = ?", (change.becomes,))
                return
            same |= {"student": change.becomes}
            self._add("change", kind="merge", becomes=change.student, name="", **same)

    def add_attempt(
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
        attempt, the same bytes) with that time. An attempt without a time is already known only if
        it equals the student's last attempt of that name; returning to an earlier version therefore
        counts as a new attempt.

        Args:
            student: The id of an enrolled student.
            name: The name of the file or folder.
            what: The submission, or the sentence with which it was refused.
            identity: For a refused submission, a hash of its bytes.
            submitted_at: When it was handed in, with a zone; None if unknown.
            late: Whether its name says that it was late.
            number: Its place among the student's attempts; 0 if unknown.
        """
        submission = what if isinstance(what, Submission) else None
        hashed = submission.sha256 if submission else f"refused {identity}"
        ignored = msgspec.json.encode(submission.ignored if submission else []).decode()
        at = _text_of(submitted_at)
        entries = self.entries
        same = entries.of(entries.id_of(student))
        earlier = self._database.execute(
            f"SELECT identity FROM attempt WHERE student IN ({', '.join('?' * len(same))})"
            " AND submitted_at = ? AND (submitted_at != '' OR (name = ? AND number = ?))"
            " ORDER BY id DESC",
            (*same, at, name, number),
        ).fetchall()
        if hashed in [row["identity"] for row in (earlier if at else earlier[:1])]:
            return False
        with self._database as db:
            db.execute(
                "INSERT INTO attempt (student, identity, submitted_at, late, number, name, sources,"
                " ignored, refused, added_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    student,
                    hashed,
                    at,
                    int(late),
                    number,
                    name,
                    hashed if submission else None,
                    ignored,
                    "" if submission else what,
                    database.now(),
                ),
            )
            if submission:
                self._store(hashed, submission.sources)
        return True

    def _store(self, sha256: str, sources: dict[str, bytes]) -> None:
        for path, content in sources.items():
            key = hashlib.sha256(content).digest()
            compressed = zlib.compress(content, 9)
            self._database.execute("INSERT OR IGNORE INTO content VALUES (?, ?)", (key, compressed))
            self._database.execute(
                "INSERT OR IGNORE INTO source VALUES (?, ?, ?)", (sha256, path, key)
            )

    def attempts(self, student: str | None = None) -> list[Attempt]:
        """The attempts of one student or of all; each student's in the order of submission."""
        entries = self.entries
        wanted = entries.of(student) if student else []
        where = f"WHERE student IN ({', '.join('?' * len(wanted))})" if student else ""
        rows = self._database.execute(
            f"SELECT * FROM attempt {where} ORDER BY submitted_at, number, id", wanted
        )
        found = [
            Attempt(
                id=row["id"],
                student=entries.id_of(row["student"]),
                name=one_line(row["name"], MAX_TEXT),
                submitted_at=_time(row["submitted_at"]),
                late=bool(row["late"]),
                number=row["number"],
                sources=row["sources"],
                ignored=json_report.decoded(row["ignored"], list[Ignored]),
                refused=one_line(row["refused"], MAX_TEXT),
            )
            for row in rows
        ]
        return sorted(found, key=lambda one: one.student)  # stable, so the order above is kept

    def submission(self, sources: str) -> Submission:
        """The stored sources with this hash, as a submission with the name of the first attempt.

        Other students may have handed in the same sources.

        Raises:
            UsageError: They do not have this hash.
        """
        rows = self._database.execute(
            "SELECT path, compressed FROM source JOIN content ON content = sha256"
            " WHERE sources = ? ORDER BY path",
            (sources,),
        )
        files, left = {}, handing_in.MAX_BYTES  # several rows may name one content
        for row in rows:
            files[row["path"]] = database.unpacked(row["compressed"], left)
            left -= len(files[row["path"]])
        first = self._database.execute(
            "SELECT name, ignored FROM attempt WHERE sources = ? ORDER BY id", (sources,)
        ).fetchone()
        ignored = json_report.decoded(first["ignored"], list[Ignored])
        found = Submission(one_line(first["name"], MAX_TEXT), files, ignored)
        if found.sha256 != sources:
            raise UsageError(
                f"{self.path}: the stored files of {first['name']} are not those of one submission "
                "(their hash is another one); hand it in again"
            )
        return found

    # --- results ----------------------------------------------------------------------------------

    def number_of(self, setup: Setup) -> int:
        """The number of a setup; a new setup is added."""
        with self._database as db:
            db.execute(
                "INSERT OR IGNORE INTO setup (sha256, device, facts) VALUES (?, ?, ?)",
                (setup.sha256, setup.device, msgspec.json.encode(setup).decode()),
            )
        number = self.find(setup)
        assert number is not None
        return number

    def find(self, setup: Setup) -> int | None:
        """The number of a setup; None if the gradebook does not have it."""
        row = self._database.execute(
            "SELECT id FROM setup WHERE sha256 = ?", (setup.sha256,)
        ).fetchone()
        return row and int(row["id"])

    def setup(self, number: int) -> Setup:
        """The setup with this number."""
        row = self._database.execute("SELECT facts FROM setup WHERE id = ?", (number,)).fetchone()
        return msgspec.json.decode(row["facts"], type=Setup)

    def _steps(self) -> list[dict[str, int]]:
        """The changes of the setups that count, by device, without those that were undone."""
        steps: list[dict[str, int]] = []
        for row in self._database.execute("SELECT device, setup, why FROM applied ORDER BY id"):
            device, setup = row["device"], int(row["setup"])
            before = [n for n, step in enumerate(steps) if device in step or row["why"] != "undo"]
            if row["why"] not in ("undo", "together"):
                steps.append({device: setup})
            elif not before:
                raise database.damaged(self.path, "the first change of what counts needs another")
            elif row["why"] == "undo":
                del steps[before[-1]]
            else:
                steps[-1][device] = setup
        return steps

    def in_force(self) -> dict[str, int]:
        """The number of the setup whose results count on each device that has one.

        A setup does not count before the other device has a setup that belongs together with it.
        """
        steps = self._steps()
        for count in range(len(steps), 0, -1):
            found = {device: setup for step in steps[:count] for device, setup in step.items()}
            first, *others = map(self.setup, found.values())
            if all(setups.belong_together(first, other) for other in others):
                return found
        return {}

    def current(self, device: str) -> int | None:
        """The number of the setup whose results count on a device; None before the first."""
        return self.in_force().get(device)

    def apply(self, *numbers: int, why: str, who: str = "") -> None:
        """Make the results of setups count from now on, as one step: one setup for each device."""
        with self._database as db:
            db.executemany(
                "INSERT INTO applied (device, setup, who, why, at) VALUES (?, ?, ?, ?, ?)",
                [
                    (
                        self.setup(setup).device,
                        setup,
                        who or database.user(),
                        "together" if place else why,
                        database.now(),
                    )
                    for place, setup in enumerate(numbers)
                ],
            )

    def undo(self, *, who: str = "") -> bool:
        """Make the results before the last step count again; return whether there were any."""
        steps = self._steps()
        if len(steps) < 2:
            return False
        setup = next(iter(steps[-1].values()))
        self.apply(setup, why="undo", who=who)
        return True

    @property
    def has_grades(self) -> bool:
        """Whether any result counts, other than those in which the grader failed."""
        return any(
            self._database.execute(
                "SELECT * FROM grade WHERE setup = ? AND fault = ''", (setup,)
            ).fetchone()
            for setup in self.in_force().values()
        )

    def partner_of(self, setup: Setup) -> int | None:
        """The newest setup with results on the other device that belongs together with this one."""
        rows = self._database.execute(
            "SELECT DISTINCT setup.id FROM setup JOIN grade ON grade.setup = setup.id"
            " WHERE device IN ('cpu', 'cuda') AND device != ? ORDER BY setup.id DESC",
            (setup.device,),
        )
        found = (int(row["id"]) for row in rows)
        return next((n for n in found if setups.belong_together(setup, self.setup(n))), None)

    def under_way(self) -> dict[str, int]:
        """How many sources have a result on each device of which no result counts yet."""
        rows = self._database.execute(
            "SELECT device, setup.id, COUNT(*) AS count FROM setup JOIN grade"
            " ON grade.setup = setup.id WHERE device IN ('cpu', 'cuda') AND fault = ''"
            " GROUP BY setup.id ORDER BY setup.id"
        ).fetchall()
        counting = self.in_force()
        return {row["device"]: row["count"] for row in rows if row["device"] not in counting}

    def unfinished(self) -> list[tuple[int, int, str]]:
        """The regrades that stopped: the setup that counts, the new one, and how much it graded.

        Of each device, it is the newest setup that never counted.
        """
        every = self._database.execute("SELECT COUNT(DISTINCT sources) FROM attempt").fetchone()[0]
        rows = self._database.execute(
            "SELECT device, MAX(setup.id) AS id, (SELECT COUNT(*) FROM grade"
            " WHERE grade.setup = MAX(setup.id) AND fault = '') AS count FROM setup"
            " WHERE id IN (SELECT setup FROM grade) AND id NOT IN (SELECT setup FROM applied)"
            " GROUP BY device"
        ).fetchall()
        counting = self.in_force()
        found = [(counting.get(row["device"], 0), row["id"], row["count"]) for row in rows]
        return [
            (old, new, f"{n} of {every}") for old, new, n in found if 0 < old < new and n < every
        ]

    def last_other(self, device: str, current: int) -> int | None:
        """The newest setup on a device that has results and is not the current one."""
        row = self._database.execute(
            "SELECT MAX(setup.id) AS last FROM setup JOIN grade ON grade.setup = setup.id"
            " WHERE device = ? AND setup.id != ?",
            (device, current),
        ).fetchone()
        return row["last"] and int(row["last"])

    def before(self, device: str) -> int | None:
        """The setup that counted on a device before the current one; None if there was none."""
        counted = [step[device] for step in self._steps() if device in step]
        return counted[-2] if len(counted) > 1 else None

    def to_grade(self, setup: int) -> list[str]:
        """The hashes of the sources without a result of this setup, in the order of submission.

        A result in which the grader failed does not count as a result.
        """
        rows = self._database.execute(
            "SELECT sources, MIN(id) AS first FROM attempt WHERE sources IS NOT NULL"
            " AND sources NOT IN (SELECT sources FROM grade WHERE setup = ? AND fault = '')"
            " GROUP BY sources ORDER BY first",
            (setup,),
        )
        return [row["sources"] for row in rows]

    def keep(self, setup: int, result: SubmissionResult, *, fault: str = "") -> None:
        """Store the result of some sources; it replaces only a result with a grader fault."""
        with self._database as db:
            self._keep(db, setup, result, fault)

    def note_fault(self, setup: int, sources: str, fault: str) -> None:
        """Record that the grader failed on some sources without producing a result."""
        with self._database as db:
            db.execute(
                "INSERT INTO grade (sources, setup, score, max_score, pending, fault, seconds, at,"
                " result) VALUES (?, ?, 0, 0, 0, ?, 0, ?, x'') ON CONFLICT DO UPDATE SET"
                " fault = excluded.fault, at = excluded.at WHERE fault != ''",
                (sources, setup, fault, database.now()),
            )

    def _keep(
        self, db: sqlite3.Connection, setup: int, result: SubmissionResult, fault: str
    ) -> None:
        sources = result.submission.sha256
        old = "SELECT id FROM grade WHERE sources = ? AND setup = ? AND fault != ''"
        db.execute(f"DELETE FROM score WHERE grade IN ({old})", (sources, setup))
        db.execute(f"DELETE FROM grade WHERE id IN ({old})", (sources, setup))
        text = zlib.compress(msgspec.json.encode(result), 6)
        done = db.execute(
            "INSERT INTO grade (sources, setup, score, max_score, pending, fault, seconds, at,"
            " result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (
                sources,
                setup,
                result.score,
                result.max_score,
                result.pending,
                fault,
                result.seconds,
                database.now(),
                text,
            ),
        )
        if done.rowcount:
            db.executemany(
                "INSERT INTO score VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (done.lastrowid, p.id, p.score, p.max_score, p.pending, str(p.status))
                    for p in result.problems
                ],
            )

    def merge_devices(self, numbers: Mapping[str, int] | None = None) -> None:
        """Store merged results for all sources that the setups of both devices graded.

        Args:
            numbers: The setup of each device; by default, those that count.
        """
        found = self.in_force() if numbers is None else numbers
        cpu, cuda = found.get("cpu"), found.get("cuda")
        if not cpu or not cuda:
            return
        both = self.number_of(self._both(self.setup(cpu), self.setup(cuda)))
        rows = self._database.execute(
            "SELECT one.sources FROM grade AS one JOIN grade AS other USING (sources)"
            " WHERE one.setup = ? AND other.setup = ? AND one.fault = '' AND other.fault = ''"
            " AND sources NOT IN (SELECT sources FROM grade WHERE setup = ?)",
            (cpu, cuda, both),
        ).fetchall()
        for (sources,) in rows:
            one, other = self.result(sources, cpu), self.result(sources, cuda)
            if one and other:
                order = [problem.id for problem in one.problems]
                with self._database as db:
                    self._keep(db, both, merged(one, other, order=order), "")

    def _both(self, one: Setup, other: Setup) -> Setup:
        cpu, cuda = sorted((one, other), key=lambda setup: setup.device)
        return msgspec.structs.replace(cpu, device="cpu+cuda", with_cuda=cuda.sha256)

    def result(self, sources: str, setup: int) -> SubmissionResult | None:
        """The whole result of some sources for a setup; None if there is none."""
        row = self._database.execute(
            "SELECT result FROM grade WHERE sources = ? AND setup = ?", (sources, setup)
        ).fetchone()
        return (
            json_report.parse(database.unpacked(row["result"])) if row and row["result"] else None
        )

    def first_result(self, sources: str | None, setups: Iterable[int]) -> SubmissionResult | None:
        """The whole result of some sources from the first of these setups that has one."""
        found = (self.result(sources, setup) for setup in setups if sources)
        return next((result for result in found if result is not None), None)

    def grades(self, setup: int, *, problems: bool = True) -> dict[str, Grade]:
        """The results of a setup, by the hash of their sources.

        Args:
            setup: The number of the setup.
            problems: Whether to read each problem's score, which takes a second for a large class.
        """
        scores: dict[int, dict[str, float]] = {}
        for row in self._database.execute(
            "SELECT score.grade, problem, score.score FROM score JOIN grade ON grade.id = grade"
            " WHERE setup = ? AND ?",
            (setup, problems),
        ):
            scores.setdefault(row["grade"], {})[row["problem"]] = row["score"]
        rows = self._database.execute(
            "SELECT id, sources, score, max_score, pending, fault FROM grade WHERE setup = ?",
            (setup,),
        )
        return {
            row["sources"]: Grade(**dict(row), problems=scores.get(row["id"], {})) for row in rows
        }

    def counting(self, numbers: Mapping[str, int] | None = None) -> list[int]:
        """The setups whose results count; if several have a result, the first one's counts.

        If both devices have a run, the setup of the merged results comes first.

        Args:
            numbers: The setup of each device; by default, those that count.
        """
        found = self.in_force() if numbers is None else numbers
        each = [found[device] for device in ("cpu", "cuda") if device in found]
        if len(each) < 2:
            return each
        both = self.find(self._both(*map(self.setup, each)))
        return each if both is None else [both, *each]

    # --- decisions of people ----------------------------------------------------------------------

    @contextmanager
    def _writes(self) -> Iterator[sqlite3.Connection]:
        """A transaction, unless one is under way already."""
        if self._database.in_transaction:
            yield self._database
            return
        with self._database:
            yield self._database

    @contextmanager
    def together(self, *, keep: bool) -> Iterator[None]:
        """Write several decisions as one or, to show what they would change, drop them at the end.

        Only `override`, `extend`, `change` and reading are allowed inside.
        """
        self._database.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._database.rollback()
            raise
        if keep:
            self._database.commit()
        else:
            self._database.rollback()

    def _add(self, table: str, **values: str | float | None) -> int:
        """Add a row that says who decided something, and when; return its number.

        Args:
            table: The table.
            values: Its columns; an empty `who` stands for the user of this program.
        """
        values |= {"who": values.get("who") or database.user(), "at": database.now()}
        marks = ", ".join("?" * len(values))
        row = self._database.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
        )
        return int(row.lastrowid or 0)

    def override(
        self, student: str, points: float | None, *, reason: str, problem: str = "", who: str = ""
    ) -> None:
        """Give a student points by hand; None withdraws points given earlier."""
        with self._writes():
            self._add(
                "override",
                student=student,
                problem=problem,
                points=points,
                reason=reason,
                who=who,
            )

    def overrides(self) -> dict[str, list[Override]]:
        """The overrides that count, by student: the last for each problem and for the total."""
        found: dict[str, dict[str, sqlite3.Row]] = {}
        id_of = self.entries.id_of
        for row in self._database.execute("SELECT * FROM override ORDER BY id"):
            of_student = found.setdefault(id_of(row["student"]), {})
            of_student.pop(row["problem"], None)
            if row["points"] is not None:
                of_student[row["problem"]] = row
        return {
            student: [
                Override(
                    problem=row["problem"],
                    points=row["points"],
                    who=row["who"],
                    reason=row["reason"],
                    at=datetime.fromisoformat(row["at"]),
                )
                for row in rows.values()
            ]
            for student, rows in found.items()
        }

    def extend(self, student: str, until: datetime, *, reason: str, who: str = "") -> None:
        """Give a student a deadline of their own."""
        with self._writes():
            self._add("extension", student=student, until=_text_of(until), reason=reason, who=who)

    def extensions(self) -> dict[str, datetime]:
        """The last extension of each student who has one."""
        id_of = self.entries.id_of
        rows = self._database.execute("SELECT student, until FROM extension ORDER BY id")
        return {id_of(row["student"]): datetime.fromisoformat(row["until"]) for row in rows}

    def comment(
        self, student: str, text: str, *, problem: str = "", attempt: int | None = None, name: str
    ) -> int:
        """Add a comment; return its number.

        Args:
            student: The student's id.
            text: What to say.
            problem: The problem that it is about; empty for the whole submission.
            attempt: The id of the attempt that it is about; None if there is none.
            name: A name by which `named_comments` finds the text again; empty for none.
        """
        with self._database:
            return self._add(
                "comment", student=student, attempt=attempt, problem=problem, name=name, text=text
            )

    def remove_comment(self, student: str, number: int) -> bool:
        """Withdraw a comment; return whether the student had this one."""
        if number not in [one.id for one in self.comments().get(student, [])]:
            return False
        with self._database:
            self._add("comment", student=student, problem="", name="", text="", removes=number)
        return True

    def comments(self) -> dict[str, list[Comment]]:
        """The comments that count, by student, oldest first."""
        found: dict[str, list[Comment]] = {}
        numbers, id_of = self._attempt_numbers(), self.entries.id_of
        for row in self._database.execute(
            "SELECT * FROM comment WHERE removes IS NULL AND id NOT IN"
            " (SELECT removes FROM comment WHERE removes IS NOT NULL) ORDER BY id"
        ):
            one = Comment(
                id=row["id"],
                problem=row["problem"],
                text=row["text"],
                attempt=numbers.get(row["attempt"], 0),
            )
            found.setdefault(id_of(row["student"]), []).append(one)
        return found

    def named_comments(self) -> dict[str, str]:
        """The last text of each name, also if the comment that had it was withdrawn."""
        rows = self._database.execute("SELECT name, text FROM comment WHERE name != '' ORDER BY id")
        return {row["name"]: row["text"] for row in rows}

    def request(
        self, attempt: Attempt, setup: int, *, problem: str, test: str, evidence: str, text: str
    ) -> int:
        """Add a regrade request; return its number.

        Args:
            attempt: The attempt that it is about.
            setup: The setup whose result has the test.
            problem: The problem.
            test: The test.
            evidence: How the test ended.
            text: What the student says.
        """
        with self._database:
            return self._add(
                "request",
                student=attempt.student,
                attempt=attempt.id,
                setup=setup,
                problem=problem,
                test=test,
                evidence=evidence,
                text=text,
            )

    def answer(
        self, request: RegradeRequest, *, accepted: bool, points: float | None, reason: str
    ) -> None:
        """Answer a regrade request, and give the points that come with the answer."""
        with self._database:
            self._add(
                "answer",
                request=request.id,
                accepted=int(accepted),
                points=points,
                reason=reason,
            )
            if points is not None:
                self._add(
                    "override",
                    student=request.student,
                    problem=request.problem,
                    points=points,
                    reason=f"regrade request {request.id}: {reason}",
                )

    def requests(self) -> list[RegradeRequest]:
        """All regrade requests with their last answers, oldest first."""
        answers = {
            row["request"]: Answer(
                accepted=bool(row["accepted"]), points=row["points"], reason=row["reason"]
            )
            for row in self._database.execute("SELECT * FROM answer ORDER BY id")
        }
        numbers, id_of = self._attempt_numbers(), self.entries.id_of
        return [
            RegradeRequest(
                id=row["id"],
                student=id_of(row["student"]),
                attempt=numbers[row["attempt"]],
                problem=row["problem"],
                test=row["test"],
                evidence=row["evidence"],
                text=row["text"],
                at=row["at"],
                answer=answers.get(row["id"]),
            )
            for row in self._database.execute("SELECT * FROM request ORDER BY id")
        ]

    def note_push(
        self, place: str, sent: Iterable[tuple[str, float, str]], event: PushEvent
    ) -> None:
        """Record what was sent to another system, and what became of it.

        Args:
            place: The assignment's address there.
            sent: For each student the id, the points, and the mark of the comment.
            event: "sent" before a request, then "done" or "failed".
        """
        with self._database:
            for student, points, comment in sent:
                self._add(
                    "push",
                    place=place,
                    student=student,
                    points=points,
                    comment=comment,
                    event=event,
                )

    def pushed(self, place: str) -> dict[str, Pushed]:
        """What was sent to another system, by student."""
        found: dict[str, Pushed] = {}
        id_of = self.entries.id_of
        for row in self._database.execute(
            "SELECT * FROM push WHERE place = ? ORDER BY id", (place,)
        ):
            student = id_of(row["student"])
            before = found.get(student, Pushed())
            comments = dict(before.comments)
            if row["comment"]:
                comments[row["comment"]] = (row["event"], datetime.fromisoformat(row["at"]))
            found[student] = Pushed(
                points=[*before.points, row["points"]],
                has_arrived=before.has_arrived or row["event"] == "done",
                comments=comments,
            )
        return found

    def _attempt_numbers(self) -> dict[int, int]:
        """For the id of each attempt, its place among its student's attempts, from 1."""
        id_of = self.entries.id_of
        found: dict[int, int] = {}
        count: Counter[str] = Counter()
        for row in self._database.execute(
            "SELECT id, student FROM attempt ORDER BY submitted_at, number, id"
        ):
            count[id_of(row["student"])] += 1
            found[row["id"]] = count[id_of(row["student"])]
        return found

    def history(self, student: str) -> list[str]:
        """What people decided about a student, one line each, oldest first."""
        found: list[tuple[str, str]] = []
        wanted = self.entries.of(student)
        for table, line in HISTORY.items():
            source = "answer.*" if table == "answer" else "*"
            joined = " JOIN request ON request.id = request" if table == "answer" else ""
            column = "IN (student, becomes)" if table == "change" else "= student"
            where = " OR ".join([f"? {column}"] * len(wanted))
            rows = self._database.execute(
                f"SELECT {source} FROM {table}{joined} WHERE {where}", wanted
            )
            found += [(row["at"], f"{row['at']} {row['who']}: {line(row)}") for row in rows]
        return [line for _, line in sorted(found, key=itemgetter(0))]


def _override_line(row: sqlite3.Row) -> str:
    about = f" for {row['problem']}" if row["problem"] else ""
    given = f"override{about} withdrawn"
    if row["points"] is not None:
        given = f"{row['points']:g} points{about}"
    return f"{given} ({row['reason']})"


def _comment_line(row: sqlite3.Row) -> str:
    if row["removes"] is not None:
        return f"comment {row['removes']} withdrawn"
    about = f" on {row['problem']}" if row["problem"] else ""
    return f"comment {row['id']}{about}: {row['text']}"


def _request_line(row: sqlite3.Row) -> str:
    about = f"{row['problem']}, {row['test']}"
    return f"regrade request {row['id']} about {about} ({row['evidence']}): {row['text']}"


def _answer_line(row: sqlite3.Row) -> str:
    word = "accepted" if row["accepted"] else "refused"
    points = "" if row["points"] is None else f" with {row['points']:g} points"
    return f"regrade request {row['request']} {word}{points} ({row['reason']})"


def _change_line(row: sqlite3.Row) -> str:
    if row["kind"] == "undo":
        why = f" ({row['reason']})" if row["reason"] else ""
        return f"change {row['undoes']} undone{why}"
    values = {name: row[name] for name in EntryChange.__struct_fields__}
    return f"change {row['id']}: {EntryChange(**values).words}"


# For each table with decisions, what `history` says about a row of it.
HISTORY: dict[str, Callable[[sqlite3.Row], str]] = {
    "override": _override_line,
    "extension": lambda row: f"extended to {row['until']} ({row['reason']})",
    "comment": _comment_line,
    "request": _request_line,
    "answer": _answer_line,
    "change": _change_line,
}


# --- opening a gradebook --------------------------------------------------------------------------


@contextmanager
def reading(path: Path) -> Iterator[Gradebook]:
    """Open a gradebook for reading, even while another process writes it.

    Raises:
        UsageError: It cannot be read, or is not a gradebook.
    """
    with database.to_read(path) as opened:
        yield Gradebook(path, opened)


@contextmanager
def writing(path: Path, *, create: bool = False) -> Iterator[Gradebook]:
    """Open a gradebook as its only writer.

    Args:
        path: The file.
        create: Whether to create it if there is none.

    Raises:
        UsageError: It is not a gradebook.
        MachineFault: Another process writes it, or it cannot be written.
    """
    with database.to_write(path, create=create) as opened:
        yield Gradebook(path, opened)


def file_name(student: str) -> str:
    """A name for a student's file: the id, with characters unsafe in a file name replaced.

    No two ids have the same name: an id that needs a hash, or looks as if it had one, gets one.
    """
    safe = re.sub(r"[^\w.@+-]", "_", student).lstrip(".")[:100]
    safe = safe.encode()[:MAX_FILE_NAME].decode("utf-8", "ignore")
    if safe == student and not HASHED.search(student):
        return safe
    return f"{safe}-{hashlib.sha256(student.encode()).hexdigest()[:HASH_DIGITS]}"


def _text_of(when: datetime | None) -> str:
    """A time in UTC, so that sorting the texts sorts the times; empty if unknown."""
    return when.astimezone(UTC).isoformat(timespec="seconds") if when else ""


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
