"""The results in a gradebook, per sources and setup: compressed JSON and problems' scores."""

import sqlite3
import zlib
from collections.abc import Iterable, Mapping

import msgspec

from grader.classroom import database
from grader.classroom.merged_students import BookPart
from grader.classroom.setups import Setup, StoredSetups
from grader.report import json_report
from grader.results.merge_runs import merged
from grader.results.points import submission_result
from grader.results.result_records import SubmissionResult

POINTS = ("score", "max_score", "pending")


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result of some sources, without its tests."""

    id: int  # its number in the gradebook
    sources: str  # the hash of the sources
    score: float  # points earned
    max_score: float  # points that could be earned in this run
    pending: float  # points of tests that need another device
    fault: str  # the grader's own failure, in one line; empty if there was none
    problems: dict[str, float]  # the score of each problem


class Results(BookPart):
    def __init__(self, opened: sqlite3.Connection) -> None:
        super().__init__(opened)
        self._setups = StoredSetups(opened)

    @property
    def has_grades(self) -> bool:
        """Whether any result counts, other than those in which the grader failed."""
        graded = self._setups.graded()
        return any(graded.get(setup) for setup in self._setups.in_force().values())

    def to_grade(self, setup: int) -> list[str]:
        """The hashes of the sources without a result but a fault, by the order of submission."""
        facts, id_of = self._setups.get(setup), self.entries.id_of
        of_all = not facts.is_part
        rows = self._db.execute(
            "SELECT sources, student FROM attempt WHERE sources IS NOT NULL"
            " AND sources NOT IN (SELECT sources FROM grade WHERE setup = ? AND fault = '')"
            " ORDER BY id",
            (setup,),
        )
        wanted = [r["sources"] for r in rows if of_all or id_of(r["student"]) in facts.students]
        return list(dict.fromkeys(wanted))

    def keep(self, setup: int, result: SubmissionResult, *, fault: str = "") -> None:
        """Store the result of some sources; it replaces only a result with a grader fault."""
        sources = result.submission.sha256
        same = {name: getattr(result, name) for name in (*POINTS, "seconds")}
        text = zlib.compress(msgspec.json.encode(result), 6)
        old = "SELECT id FROM grade WHERE sources = ? AND setup = ? AND fault != ''"
        with self._db as db:
            db.execute(f"DELETE FROM score WHERE grade IN ({old})", (sources, setup))
            db.execute(f"DELETE FROM grade WHERE id IN ({old})", (sources, setup))
            about = {"sources": sources, "setup": setup, "fault": fault, "at": database.now()}
            done = self._insert("OR IGNORE INTO grade", **about, **same, result=text)
            for p in result.problems if done.rowcount else ():
                points = {name: getattr(p, name) for name in POINTS}
                of = {"grade": done.lastrowid, "problem": p.id, "status": str(p.status)}
                self._insert("INTO score", **of, **points)

    def note_fault(self, setup: int, sources: str, fault: str) -> None:
        """Record that the grader failed on some sources without producing a result."""
        with self._db as db:
            db.execute(
                "INSERT INTO grade (sources, setup, score, max_score, pending, fault, seconds, at,"
                " result) VALUES (?, ?, 0, 0, 0, ?, 0, ?, x'') ON CONFLICT DO UPDATE SET"
                " fault = excluded.fault, at = excluded.at WHERE fault != ''",
                (sources, setup, fault, database.now()),
            )

    def fill(self, whole: int, part: int, rest: int) -> None:
        """Store for a setup the results of a part that was graded again, and of the rest."""
        for sources, grade in self.grades(rest).items():
            old, new = self.result(sources, rest), self.result(sources, part)
            if old is None:
                self.note_fault(whole, sources, grade.fault)
            elif new is None:
                self.keep(whole, old, fault=grade.fault)
            else:
                again = {problem.id: problem for problem in new.problems}
                problems = [again.get(problem.id, problem) for problem in old.problems]
                both = submission_result(
                    old.submission, new.grader, problems, seconds=old.seconds + new.seconds
                )
                self.keep(whole, both)

    def merge_devices(self, numbers: Mapping[str, int] | None = None) -> None:
        """Store merged results for all sources that the setups of both devices graded."""
        found = self._setups.in_force() if numbers is None else numbers
        cpu, cuda = found.get("cpu"), found.get("cuda")
        if not cpu or not cuda:
            return
        both = self._setups.number_of(self._both(self._setups.get(cpu), self._setups.get(cuda)))
        rows = self._db.execute(
            "SELECT one.sources FROM grade AS one JOIN grade AS other USING (sources)"
            " WHERE one.setup = ? AND other.setup = ? AND one.fault = '' AND other.fault = ''"
            " AND sources NOT IN (SELECT sources FROM grade WHERE setup = ?)",
            (cpu, cuda, both),
        ).fetchall()
        for (sources,) in rows:
            one, other = self.result(sources, cpu), self.result(sources, cuda)
            if one and other:
                order = [problem.id for problem in one.problems]
                self.keep(both, merged(one, other, order=order))

    def _both(self, one: Setup, other: Setup) -> Setup:
        cpu, cuda = sorted((one, other), key=lambda setup: setup.device)
        return msgspec.structs.replace(cpu, device="cpu+cuda", with_cuda=cuda.sha256)

    def result(self, sources: str, setup: int) -> SubmissionResult | None:
        """The whole result of some sources for a setup; None if there is none."""
        row = self._db.execute(
            "SELECT result FROM grade WHERE sources = ? AND setup = ?", (sources, setup)
        ).fetchone()
        return (
            json_report.parse(database.unpacked(row["result"])) if row and row["result"] else None
        )

    def first_result(self, sources: str | None, setups: Iterable[int]) -> SubmissionResult | None:
        """The whole result of some sources from the first of these setups that has one."""
        found = (self.result(sources, setup) for setup in setups if sources)
        return next((result for result in found if result is not None), None)

    def grades(self, setup: int) -> dict[str, Grade]:
        """The results of a setup, by the hash of their sources."""
        scores: dict[int, dict[str, float]] = {}
        for row in self._db.execute(
            "SELECT score.grade, problem, score.score FROM score JOIN grade ON grade.id = grade"
            " WHERE setup = ?",
            (setup,),
        ):
            scores.setdefault(row["grade"], {})[row["problem"]] = row["score"]
        rows = self._db.execute(
            "SELECT id, sources, score, max_score, pending, fault FROM grade WHERE setup = ?",
            (setup,),
        )
        return {r["sources"]: Grade(**dict(r), problems=scores.get(r["id"], {})) for r in rows}

    def points(self, setups: Iterable[int]) -> dict[str, float]:
        """The points of each problem when it was graded."""
        marks = [(setup,) for setup in setups]
        query = (
            "SELECT problem, MAX(score.max_score) AS points FROM score JOIN grade ON"
            " grade.id = grade WHERE setup = ? GROUP BY problem"
        )
        rows = [row for mark in marks for row in self._db.execute(query, mark)]
        return {row["problem"]: row["points"] for row in rows}

    def counting(self, numbers: Mapping[str, int] | None = None) -> list[int]:
        """The setups whose results count, best first: that of merged results, if there is one."""
        found = self._setups.in_force() if numbers is None else numbers
        each = [found[device] for device in ("cpu", "cuda") if device in found]
        if len(each) < 2:
            return each
        both = self._setups.find(self._both(*map(self._setups.get, each)))
        return each if both is None else [both, *each]
