"""A class as a table: a CSV file for a spreadsheet.

A spreadsheet runs a cell that begins with = as a formula, and students choose their own names. So
a text that could be a formula gets an apostrophe in front.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from grader.classroom.class_records import Standing
from grader.course import late_policy
from grader.report.shared_wording import number
from kit.safe_text import printable

SMALL = 0.005  # points; smaller differences are not shown anywhere
MAX_CELL = 10_000  # characters of a text; a spreadsheet allows 32,767
BEFORE_PROBLEMS = (
    "id", "name", "email", "section", "state", "points", "score", "max_score", "pending", "penalty",
    "days_late", "late_days_used", "attempt", "attempts", "submitted_at", "deadline",
)  # fmt: skip
AFTER_PROBLEMS = ("overrides", "note")
# How a formula can begin. The last four are the wide forms of = + - @.
FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
LINE_ENDS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
BOM = "\ufeff"


def csv_table(standings: Sequence[Standing], problems: Sequence[str]) -> str:
    """The class as CSV without unsafe characters: a row per student, unknown values empty."""
    others = list(dict.fromkeys(name for one in standings for name in one.student.columns))
    header = _unique([*BEFORE_PROBLEMS, *problems, *AFTER_PROBLEMS, *others])
    rows = [_row(one, problems, others) for one in standings]
    return csv_of([list(map(safe_text, header)), *rows])


def late_days_table(
    known: Mapping[tuple[str, str], int], title: str, standings: Sequence[Standing]
) -> str:
    """The late days of a whole course as CSV, with the rows of this title replaced."""
    kept = {key: days for key, days in known.items() if key[1] != title}
    kept |= {(one.student.id, title): one.free_days for one in standings if one.free_days}
    rows = [[safe_text(who), safe_text(of), str(days)] for (who, of), days in sorted(kept.items())]
    return csv_of([late_policy.LATE_DAYS_COLUMNS, *rows])


def _unique(names: Iterable[str]) -> list[str]:
    """Column names without duplicates; a repeated name gets a number, as in `points (2)`."""
    found: dict[str, None] = {}
    times: Counter[str] = Counter()
    for name in names:
        unique = name
        while unique in found:
            times[name] += 1
            unique = f"{name} ({times[name] + 1})"
        found[unique] = None
    return list(found)


def _row(one: Standing, problems: Sequence[str], others: Sequence[str]) -> list[str]:
    student, times = one.student, (one.submitted_at, one.deadline)
    return [
        *map(
            safe_text, (student.id, student.name, student.email, student.section, one.state.value)
        ),
        *map(decimal, (one.points, one.score, one.max_score, one.pending, one.penalty)),
        *map(str, (one.days_late, one.free_days, one.attempt, one.attempts)),
        *(at.isoformat(timespec="seconds") if at else "" for at in times),
        *(decimal(one.problems.get(problem)) for problem in problems),
        safe_text(
            "; ".join(
                f"{o.problem or 'total'} {decimal(o.points)} {o.who}: {o.reason}"
                for o in one.overrides
            )
        ),
        safe_text(one.why),
        *(safe_text(student.columns.get(name, "")) for name in others),
    ]


def decimal(value: float | None) -> str:
    """A number with up to four decimals and no trailing zeros; empty for None."""
    return "" if value is None else number(value, 4)


def safe_text(text: str) -> str:
    """A text as one line whose parts between semicolons no spreadsheet runs as formulas."""
    parts = printable(LINE_ENDS.sub(" ", text), MAX_CELL).split(";")
    return ";".join(f"'{part}" if _is_formula(part) else part for part in parts)


def _is_formula(line: str) -> bool:
    """Whether a text could be a formula, with any number of apostrophes in front."""
    bare = line.lstrip("'")
    return bool(FORMULA.match(bare)) and not NUMBER.fullmatch(bare)


def csv_of(rows: Iterable[Sequence[str]], delimiter: str = ",", line_end: str = "\n") -> str:
    return "".join(_line(row, delimiter) + line_end for row in rows)


def _line(row: Sequence[str], delimiter: str) -> str:
    """One row; `csv.writer` quotes a line end only if `lineterminator` contains it."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerow(row)
    return file.getvalue().removesuffix("\r\n")
