"""Points and deadlines that people give, one by one or from a CSV file, and likely slips."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from grader.base.errors import UsageError
from grader.classroom import roster
from grader.classroom.class_records import Standing, State, called
from grader.classroom.standings import Class
from grader.course import late_policy
from kit.safe_text import one_line

COMMA = re.compile(r"\d+,\d{1,2}", re.ASCII)
SHOWN = 9  # the most rows with a mistake that one message lists


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Points or a deadline for a student."""

    student: str  # the student's id
    reason: str  # why
    points: float | None = None  # the points; None for a deadline, or to withdraw points
    problem: str = ""  # the problem that the points are for; empty for the total
    until: datetime | None = None  # the new deadline; None for points


def read(path: Path, whole: Class, *, column: str, reason: str, anyway: bool) -> list[Decision]:
    """Read decisions from a CSV file with a header.

    Its columns are student, "points" or "until", reason and, for points, problem. Rows without a
    reason have the given one, and `anyway` accepts points that `require_possible` refuses.

    Raises:
        UsageError: A column is missing, or rows are wrong; the message names their lines.
    """
    known = ("student", column, *(["problem"] if column == "points" else []), "reason")
    line, header, rows = roster.table(path, known)
    names = [name.casefold() for name in header]
    if not {"student", column} <= set(names) <= {*known} or len(set(names)) < len(names):
        raise UsageError(
            f"{path}:{line}: expected the columns {', '.join(known)}, found "
            f"{one_line(', '.join(header), 200)}"
        )
    standings = {one.student.id: one for one in whole.standings()}
    found: dict[tuple[str, str], Decision] = {}
    errors: list[str] = []
    for line, row in rows:
        # an apostrophe keeps a spreadsheet from running a text as a formula.
        cells = {n: c.strip().removeprefix("'") for n, c in zip(names, row, strict=False)}
        try:
            one = _row(whole, standings, cells, column, reason, anyway)
            if (one.student, one.problem) in found:
                raise UsageError(f"a second row for {one.student}")
            found[one.student, one.problem] = one
        except UsageError as e:
            errors.append(f"line {line}: {e}")
    if errors:
        more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
        raise UsageError(f"{path}: {'; '.join(errors[:SHOWN])}{more}; nothing was written")
    if not found:
        raise UsageError(f"{path} has a header but no rows")
    return list(found.values())


def _row(
    whole: Class,
    standings: Mapping[str, Standing],
    cells: dict[str, str],
    column: str,
    reason: str,
    anyway: bool,
) -> Decision:
    text = cells.get(column, "")
    why = cells.get("reason", "") or reason
    if not why.strip():
        raise UsageError("expected a reason, in the row or with --reason")
    who = whole.find(cells.get("student", ""))
    if column == "until":
        at = late_policy.when(text, what="until", zone=whole.rules.time_zone)
        return Decision(student=who, until=at, reason=why)
    try:
        # More digits after a comma could be thousands.
        points = float(text.replace(",", ".") if COMMA.fullmatch(text) else text)
    except ValueError:
        points = math.nan
    if not 0 <= points < late_policy.MOST:
        raise UsageError(f"points {one_line(text, 50)}: expected a number such as 3.5, 0 or more")
    problem = cells.get("problem", "")
    if not anyway:
        require_possible(whole, standings[who], points, problem, "points")
    elif problem:
        whole.problem(problem)
    return Decision(student=who, points=points, problem=problem, reason=why)


def require_possible(
    whole: Class, standing: Standing, points: float, problem: str, option: str = "--points"
) -> None:
    """Refuse points that are a slip: of no problem, above the most, or for nothing handed in."""
    most = whole.problem(problem).points if problem else whole.max_score
    if points > most > 0:
        raise UsageError(
            f"{option} {points:g}: {problem or 'the assignment'} gives at most {most:g}; "
            "--anyway gives them nevertheless"
        )
    if standing.state is State.MISSING:
        raise UsageError(
            f"{called(standing.student)} handed in nothing; --anyway gives the points all the same"
        )


def write(whole: Class, decisions: Iterable[Decision]) -> None:
    for one in decisions:
        if one.until is not None:
            whole.book.decisions.extend(one.student, one.until, reason=one.reason)
            continue
        whole.book.decisions.override(
            one.student, one.points, problem=one.problem, reason=one.reason
        )
