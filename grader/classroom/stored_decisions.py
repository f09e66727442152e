"""What people decided and said about students, and what was sent to other systems.

Each row has who wrote it and when; a later row replaces or withdraws an earlier one.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from grader.classroom.class_records import Pushed, PushEvent, Student
from grader.classroom.merged_students import BookPart, EntryChange, of_row
from grader.classroom.stored_attempts import Attempt, Attempts, text_of
from grader.report.gradebook_notes import Answer, Comment, Override, RegradeRequest

NO_POINTS = -1.0  # of a comment that was sent alone


class Decisions(BookPart):
    """Points and deadlines that people gave, and the history of each student."""

    @contextmanager
    def together(self, *, keep: bool) -> Iterator[None]:
        """Write several decisions as one or, to show what they change, drop them at the end."""
        self._db.execute("BEGIN")
        try:
            yield
            if keep:
                self._db.commit()
        finally:
            self._db.rollback()  # of nothing, after a commit

    def override(
        self, student: str, points: float | None, *, reason: str, problem: str = ""
    ) -> None:
        """Give a student points by hand; None withdraws points given earlier."""
        with self._writes():
            self._add("override", student=student, problem=problem, points=points, reason=reason)

    def overrides(self) -> dict[str, list[Override]]:
        """The overrides that count, by student: the last for each problem and for the total."""
        found = defaultdict[str, dict[str, Override]](dict)
        id_of = self.entries.id_of
        for row in self._db.execute("SELECT * FROM override ORDER BY id"):
            of_student = found[id_of(row["student"])]
            of_student.pop(row["problem"], None)
            if row["points"] is not None:
                at = datetime.fromisoformat(row["at"])
                of_student[row["problem"]] = of_row(Override, row, at=at)
        return {student: [*given.values()] for student, given in found.items()}

    def extend(self, student: str, until: datetime, *, reason: str) -> None:
        """Give a student a deadline of their own."""
        with self._writes():
            self._add("extension", student=student, until=text_of(until), reason=reason)

    def extensions(self) -> dict[str, datetime]:
        """The last extension of each student who has one."""
        id_of = self.entries.id_of
        rows = self._db.execute("SELECT student, until FROM extension ORDER BY id")
        return {id_of(row["student"]): datetime.fromisoformat(row["until"]) for row in rows}

    def history(self, student: str) -> list[str]:
        """What people decided about a student, one line each, oldest first."""
        found: list[str] = []
        wanted = self.entries.of(student)
        for table, line in HISTORY.items():
            source = "answer.*" if table == "answer" else "*"
            joined = " JOIN request ON request.id = request" if table == "answer" else ""
            column = "IN (student, becomes)" if table == "change" else "= student"
            where = " OR ".join([f"? {column}"] * len(wanted))
            rows = self._db.execute(f"SELECT {source} FROM {table}{joined} WHERE {where}", wanted)
            found += [f"{row['at']} {row['who']}: {line(row)}" for row in rows]
        return sorted(found, key=lambda line: line.partition(" ")[0])

    def since(self, at: datetime, students: Iterable[Student]) -> list[str]:
        """What was handed in and decided since a time, and which results came to count."""
        start = text_of(at)
        found = [
            f"{row['at']} {row['who']}: the results of setup {row['setup']} count ({row['why']})"
            for row in self._db.execute("SELECT * FROM applied WHERE at >= ?", (start,))
        ]
        id_of = self.entries.id_of
        found += [
            f"{row['added_at']} {id_of(row['student'])}: handed in {row['name']}"
            for row in self._db.execute("SELECT * FROM attempt WHERE added_at >= ?", (start,))
        ]
        for one in students:
            lines = [line.split(" ", 1) for line in self.history(one.id)]
            found += [f"{when} {one.id}, by {line}" for when, line in lines if when >= start]
        return sorted(found)


class Feedback(BookPart):
    """Comments, and regrade requests with their answers."""

    def comment(
        self, student: str, text: str, *, problem: str = "", attempt: int | None = None, name: str
    ) -> int:
        """Add a comment; `named_comments` finds its text again by the name. Return its number."""
        with self._db:
            return self._add(
                "comment", student=student, attempt=attempt, problem=problem, name=name, text=text
            )

    def remove_comment(self, student: str, number: int) -> bool:
        """Withdraw a comment; return whether the student had this one."""
        if number not in [one.id for one in self.comments().get(student, [])]:
            return False
        with self._db:
            self._add("comment", student=student, problem="", name="", text="", removes=number)
        return True

    def comments(self) -> dict[str, list[Comment]]:
        """The comments that count, by student, oldest first."""
        found: dict[str, list[Comment]] = {}
        numbers, id_of = Attempts(self._db).numbers(), self.entries.id_of
        for row in self._db.execute(
            "SELECT * FROM comment WHERE removes IS NULL AND id NOT IN"
            " (SELECT removes FROM comment WHERE removes IS NOT NULL) ORDER BY id"
        ):
            one = of_row(Comment, row, attempt=numbers.get(row["attempt"], 0))
            found.setdefault(id_of(row["student"]), []).append(one)
        return found

    def named_comments(self) -> dict[str, str]:
        """The last text of each name, also if the comment that had it was withdrawn."""
        rows = self._db.execute("SELECT name, text FROM comment WHERE name != '' ORDER BY id")
        return {row["name"]: row["text"] for row in rows}

    def request(
        self, attempt: Attempt, setup: int, *, problem: str, test: str, evidence: str, text: str
    ) -> int:
        """Add a regrade request, with the setup of the test's result; return its number."""
        with self._db:
            of = {"student": attempt.student, "attempt": attempt.id, "setup": setup}
            about = {"problem": problem, "test": test, "evidence": evidence, "text": text}
            return self._add("request", **of, **about)

    def answer(
        self, request: RegradeRequest, *, accepted: bool, points: float | None, reason: str
    ) -> None:
        """Answer a regrade request, perhaps with points; a refusal takes back earlier ones."""
        with self._db:
            given = {"accepted": int(accepted), "points": points, "reason": reason}
            self._add("answer", request=request.id, **given)
            if points is not None or (not accepted and self._has_given(request)):
                about = {"student": request.student, "problem": request.problem}
                why = f"regrade request {request.id}: {reason}"
                self._add("override", **about, points=points, reason=why)

    def _has_given(self, request: RegradeRequest) -> bool:
        """Whether the points that count for a request's problem came with an answer to it."""
        entries = self.entries.of(request.student)
        last = self._db.execute(
            f"SELECT reason FROM override WHERE student IN ({', '.join('?' * len(entries))})"
            " AND problem = ? ORDER BY id DESC",
            (*entries, request.problem),
        ).fetchone()
        return bool(last) and last["reason"].startswith(f"regrade request {request.id}: ")

    def requests(self) -> list[RegradeRequest]:
        """All regrade requests with their last answers, oldest first."""
        answers = {
            row["request"]: of_row(Answer, row, accepted=bool(row["accepted"]))
            for row in self._db.execute("SELECT * FROM answer ORDER BY id")
        }
        numbers, id_of = Attempts(self._db).numbers(), self.entries.id_of
        return [
            of_row(
                RegradeRequest,
                row,
                student=id_of(row["student"]),
                attempt=numbers[row["attempt"]],
                answer=answers.get(row["id"]),
            )
            for row in self._db.execute("SELECT * FROM request ORDER BY id")
        ]


class Pushes(BookPart):
    def note(
        self, place: str, student: str, points: float | None, comment: str, event: PushEvent
    ) -> None:
        """Record what became of points, or None, and of the comment with this mark."""
        with self._db:
            known = NO_POINTS if points is None else points
            values = {"student": student, "points": known, "comment": comment}
            self._add("push", place=place, event=event, **values)

    def of(self, place: str) -> dict[str, Pushed]:
        """What was sent to another system, by student."""
        found: dict[str, Pushed] = {}
        id_of = self.entries.id_of
        for row in self._db.execute("SELECT * FROM push WHERE place = ? ORDER BY id", (place,)):
            student = id_of(row["student"])
            before = found.get(student, Pushed())
            comments = dict(before.comments)
            if row["comment"]:
                comments[row["comment"]] = (row["event"], datetime.fromisoformat(row["at"]))
            found[student] = Pushed(
                points=[*before.points, row["points"]],
                has_arrived=before.has_arrived
                or (row["event"] == "done" and row["points"] != NO_POINTS),
                comments=comments,
            )
        return found


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


def _answer_line(row: sqlite3.Row) -> str:
    word = "accepted" if row["accepted"] else "refused"
    points = "" if row["points"] is None else f" with {row['points']:g} points"
    return f"regrade request {row['request']} {word}{points} ({row['reason']})"


def _change_line(row: sqlite3.Row) -> str:
    if row["kind"] == "undo":
        why = f" ({row['reason']})" if row["reason"] else ""
        return f"change {row['undoes']} undone{why}"
    return f"change {row['id']}: {of_row(EntryChange, row).words}"


# For each table with decisions, what `history` says about a row of it.
HISTORY: dict[str, Callable[[sqlite3.Row], str]] = {
    "override": _override_line,
    "extension": lambda row: f"extended to {row['until']} ({row['reason']})",
    "comment": _comment_line,
    "request": lambda row: (
        f"regrade request {row['id']} about {row['problem']}, {row['test']} ({row['evidence']}): "
        f"{row['text']}"
    ),
    "answer": _answer_line,
    "change": _change_line,
}
