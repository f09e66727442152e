"""The late days of a whole course: a CSV file that counts them over all assignments.

Each row has a student, an assignment's title and the late days that the student used there without
a penalty. Every assignment writes its own rows and reads those of the others, so that the order in
which assignments are graded again does not matter.
"""

import re
from pathlib import Path

from grader.base import files
from grader.base.errors import UsageError
from kit.text import one_line

COLUMNS = ["student", "assignment", "days"]


def read(path: Path) -> dict[tuple[str, str], int]:
    """The days in a file, by student and assignment; empty without the file.

    Raises:
        UsageError: It cannot be read, or a row is wrong.
    """
    if not path.exists():
        return {}
    rows = files.table_rows(files.table_text(path), str(path))
    _, header = next(rows, (1, []))
    if [cell.strip().lower() for cell in header] != COLUMNS:
        found_there = one_line(", ".join(header), 100) or "an empty file"
        raise UsageError(
            f"{path}:1: expected a file of late days with the columns {', '.join(COLUMNS)}, found "
            f"{found_there}"
        )
    found: dict[tuple[str, str], int] = {}
    for line, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(COLUMNS) or not re.fullmatch(r"\s*\d{1,9}\s*", row[2]):
            raise UsageError(
                f"{path}:{line}: expected a student, an assignment and a whole number of days, "
                f"found {one_line(', '.join(row), 100)}"
            )
        # An apostrophe keeps a spreadsheet from running a text as a formula.
        key = row[0].strip().removeprefix("'"), row[1].strip().removeprefix("'")
        if key in found:
            raise UsageError(f"{path}:{line}: {' has a second row for '.join(key)}")
        found[key] = int(row[2])
    return found


def used_elsewhere(path: Path, title: str) -> dict[str, int]:
    """The late days that each student used in assignments of other titles."""
    used: dict[str, int] = {}
    for (student, assignment), days in read(path).items():
        if assignment != title:
            used[student] = used.get(student, 0) + days
    return used
