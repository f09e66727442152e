"""The file for Canvas' gradebook."""

from grader.base import files
from grader.base.errors import UsageError
from grader.base.output_paths import Writes
from grader.classroom import canvas_csv
from grader.classroom.class_records import Standing
from grader.classroom.standings import Class
from grader.commands.report_options import Export, Paths


def _write(whole: Class, found: list[Standing], paths: Paths) -> list[str]:
    path, exported = paths["canvas"], paths["canvas-export"]
    if exported and not path:
        raise UsageError("export: --canvas-export needs --canvas, the file to write")
    if not path:
        return []
    text = files.table_text(exported) if exported else None
    entries = whole.book.students.entries
    former = {one.student.id: entries.of(one.student.id)[1:] for one in found}
    table = canvas_csv.canvas(found, whole.rules, exported=text, former=former)
    files.write(path, table.text.encode())
    return table.notes


OPTION = Export(
    {
        "canvas": ("A file for Canvas to import.", "FILE", Writes()),
        "canvas-export": (
            "A gradebook exported from Canvas: fill in its column for this assignment.",
            "FILE",
            None,
        ),
    },
    _write,
)
