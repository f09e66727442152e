"""Read Moodle's download of an assignment: folders or files whose names say whose they are."""

import re
from collections import defaultdict

from grader.base.errors import UsageError
from grader.classroom.class_records import HandedIn
from grader.classroom.intake.folder_items import (
    READABLE,
    Download,
    FolderItem,
    Found,
    items_in,
    notes_of_skipped,
)

# The student's full name, the submission's number, and the plugin that took the submission. With
# Moodle's option "Download submissions in folders" this is a folder, else the beginning of a file's
# name. The student chooses what follows, so the first number is Moodle's.
MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<number>\d{1,18})_assignsubmission_(?P<plugin>file|onlinetext)_?(?P<file>.*)",
    re.ASCII | re.DOTALL,
)
TYPED = "it is text that was typed into Moodle; ask for the file"


def moodle(items: list[FolderItem]) -> Found:
    """Read Moodle's download, whose numbers are no ids, so that names have to be in the roster."""
    by_student: dict[tuple[str, str], list[FolderItem]] = defaultdict(list)
    for item in items:
        if (match := MOODLE.fullmatch(item.stem)) and item.kind not in ("link", "special"):
            by_student[match["name"], match["number"]].append(item)
    found = [_one(name, theirs) for (name, _), theirs in by_student.items()]
    seen = {item.path for theirs in by_student.values() for item in theirs}
    others = [item for item in items if item.path not in seen]
    notes = notes_of_skipped(others, folder="it is not part of a Moodle download")
    return Found(found, notes)


def _one(name: str, theirs: list[FolderItem]) -> HandedIn:
    """The submission of one student, which may consist of several files."""
    files = [one for item in theirs if _plugin(item) == "file" for one in _files_of(item)]
    archives = [item for item in files if item.kind == "archive"]
    modules = [item for item in files if item.kind == "module"]
    folders = [item for item in files if item.kind == "folder"]
    parts: tuple[tuple[str, FolderItem], ...] = ()
    doubt = ""
    if len(archives) == 1:
        path = archives[0].path
    elif len(archives) > 1:
        names = " and ".join(item.name for item in archives[:2])
        path, doubt = theirs[0].path, f"{names} are both archives; remove one"
    elif folders or (len(modules) > 1 and theirs[0].kind == "folder"):
        path = theirs[0].path
    elif modules:
        path, parts = modules[0].path, tuple((_name_of(item), item) for item in modules)
    else:
        what = f"{files[0].name} cannot be graded: expected {READABLE}" if files else TYPED
        path, doubt = theirs[0].path, what
    return HandedIn(
        path=path,
        parts=tuple((name, item.path) for name, item in parts),
        key=name,
        student_name=name,
        doubt=doubt,
    )


def _plugin(item: FolderItem) -> str:
    match = MOODLE.fullmatch(item.stem)
    return match["plugin"] if match else ""


def _files_of(item: FolderItem) -> list[FolderItem]:
    if item.kind != "folder":
        return [item]
    try:
        return items_in(item.path)
    except UsageError:
        return []


def _name_of(item: FolderItem) -> str:
    match = MOODLE.fullmatch(item.path.name)
    return match["file"] if match else item.path.name


def _is_moodle(items: list[FolderItem]) -> bool:
    of_moodle = [item for item in items if MOODLE.fullmatch(item.stem)]
    graded = [i for i in items if i.kind in ("archive", "module", "folder")]
    return bool(of_moodle) and all(item in of_moodle for item in graded)


DOWNLOAD = Download("Moodle", MOODLE, _is_moodle, moodle)
