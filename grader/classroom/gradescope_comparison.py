"""Compare a class's points with the scores that Gradescope exports, its "Download Scores" CSV."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.base import files
from grader.base.errors import UsageError
from grader.classroom.class_records import Standing, called
from kit.safe_text import one_line

SCORE = "Total Score"
IDENTITIES = ("SID", "Email")
NAMES = ("Name", "First Name", "Last Name")
ROUNDING = 0.005 + 1e-9  # Gradescope writes two decimals


@dataclass(frozen=True)
class GradescopeScore:
    line: int  # the line of the file
    known_as: tuple[str, ...]  # the student's id and e-mail address, without empty ones
    called: str  # the student's name, id or address, safe to print
    score: float | None  # the total score; None if Gradescope has none


@dataclass(frozen=True)
class ScoreDifference:
    """A student whose points differ; None where there are no points."""

    student: str  # the student, safe to print
    theirs: float | None  # the points in Gradescope
    ours: float | None  # the points in the gradebook
    why: str = ""  # what else a person should know; empty if nothing


def read(path: Path) -> list[GradescopeScore]:
    """Read the file; another one is a UsageError."""
    shown = one_line(str(path), 300)
    rows = files.table_rows(files.table_text(path), shown)
    _, header = next(rows, (1, []))
    if SCORE not in header or not set(IDENTITIES) & set(header):
        raise UsageError(
            f"{shown} is not an export of scores from Gradescope: expected a header with "
            f"{SCORE}, and SID or Email"
        )
    return [
        _row(dict(zip(header, row, strict=False)), f"{shown}:{line}", line)
        for line, row in rows
        if any(row)
    ]


def _row(cells: dict[str, str], where: str, line: int) -> GradescopeScore:
    known = tuple(cell for name in IDENTITIES if (cell := cells.get(name, "").strip()))
    name = " ".join(cell for one in NAMES if (cell := cells.get(one, "").strip()))
    written = cells.get(SCORE, "").strip()
    try:
        score = float(written) if written else None
    except ValueError:
        score = math.nan
    if score is not None and not math.isfinite(score):
        raise UsageError(f"{where}: {SCORE} is {one_line(written, 40)}; expected a number")
    return GradescopeScore(line, known, one_line(name or " ".join(known) or "no name", 100), score)


def differences(
    standings: Sequence[Standing], exported: Iterable[GradescopeScore]
) -> list[ScoreDifference]:
    """The students whose points differ by more than rounding, or who are only in one of the two."""
    owners: dict[str, list[Standing]] = {}
    for one in standings:
        for key in {one.student.id.casefold(), one.student.email.casefold()} - {""}:
            owners.setdefault(key, []).append(one)
    found: list[ScoreDifference] = []
    seen: dict[str, int] = {}
    for row in exported:
        known = next((owners[k] for k in map(str.casefold, row.known_as) if k in owners), [])
        if len(known) != 1:
            why = "in the gradebook several times" if known else "only in Gradescope"
            found.append(ScoreDifference(row.called, row.score, None, why))
            continue
        (one,) = known
        first = seen.setdefault(one.student.id, row.line)
        why = "" if one.points is not None else one.state.words
        if first != row.line:
            why = f"lines {first} and {row.line} of the file are the same student"
        if first != row.line or _differ(row.score, one.points):
            found.append(ScoreDifference(called(one.student), row.score, one.points, why))
    return found + [
        ScoreDifference(called(one.student), None, one.points, "only in the gradebook")
        for one in standings
        if one.student.id not in seen and one.points is not None
    ]


def _differ(theirs: float | None, ours: float | None) -> bool:
    if theirs is None or ours is None:
        return theirs is not ours
    return abs(theirs - ours) > ROUNDING
