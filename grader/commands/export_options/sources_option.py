"""The sources of a class in folders, for programs that look for copies."""

from collections.abc import Iterator
from pathlib import Path

from grader.base import files, interrupts
from grader.base.errors import UsageError
from grader.base.output_paths import Writes
from grader.classroom import gradebook
from grader.classroom.class_records import Standing, called
from grader.classroom.spreadsheet_csv import csv_of, safe_text
from grader.classroom.standings import Class
from grader.commands.report_options import Export, Paths
from kit.handing_in import SOURCE

CLASS, GIVEN = "class", "given/given.py"  # below the folder that the command names
# The columns that Dolos reads. It shows names and times, gives each section a colour, and takes the
# file that is ignored for code that everybody has.
COLUMNS = ("filename", "full_name", "label", "created_at", "ignored")


def _write(whole: Class, found: list[Standing], paths: Paths) -> list[str]:
    """Write a folder of modules for each student, what all students get, and a table of these."""
    folder = paths["sources"]
    if not folder:
        return []
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(
            f"export: --sources {folder} has files, perhaps those of another class: expected an "
            "empty folder or a new one"
        )
    rows = [COLUMNS, (GIVEN, "", "", "", "true")]
    _keep(folder / GIVEN, "\n\n".join(whole.course.given_sources()).encode())
    for one in found:
        interrupts.stop_if_seen()
        at = one.submitted_at.isoformat(timespec="seconds") if one.submitted_at else ""
        told = (safe_text(called(one.student)), safe_text(one.student.section), at, "")
        for path, text in _modules(whole, one):
            _keep(folder / path, text)
            rows.append((path, *told))
    files.write(folder / "info.csv", csv_of(rows).encode())
    return []


def _modules(whole: Class, one: Standing) -> Iterator[tuple[str, bytes]]:
    """The modules of the attempt that counts, by their paths below the folder."""
    student = gradebook.file_name(one.student.id)
    for path, text in whole.sources(one).items():
        if SOURCE.fullmatch(path):  # a gradebook that a stranger made may have any paths
            yield f"{CLASS}/{student}/{path}", text


def _keep(path: Path, text: bytes) -> None:
    files.make_folder(path.parent)
    files.write(path, text)


OPTION = Export(
    {
        "sources": (
            "The modules that count, and the code that all students get, for programs that look "
            "for copies: JPlag, Dolos, compare50.",
            "DIR",
            Writes("py"),
        )
    },
    _write,
)
