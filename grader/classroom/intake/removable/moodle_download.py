"""Read Moodle's download of an assignment: folders or files whose names say whose they are."""

import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

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
    files = [one for item in theirs for one in _files_of(item)]
    archives = [item for item in files if item.kind == "archive"]
    modules = [item for item in files if item.kind == "module"]
    folders = [item for item in files if item.kind == "folder"]
    parts: tuple[tuple[str, Path], ...] = ()
    path, doubt = theirs[0].path, ""
    if len(archives) == 1:
        path = archives[0].path
    elif archives:
        doubt = f"{archives[0].name} and {archives[1].name} are both archives; remove one"
    elif not folders and not modules:
        doubt = f"{files[0].name} cannot be graded: expected {READABLE}" if files else TYPED
    elif not folders and (len(modules) == 1 or theirs[0].kind != "folder"):
        path, parts = modules[0].path, tuple((_name_of(item), item.path) for item in modules)
    return HandedIn(path=path, parts=parts, key=name, student_name=name, doubt=doubt)


def _files_of(item: FolderItem) -> list[FolderItem]:
    match = MOODLE.fullmatch(item.stem)
    with suppress(UsageError):
        if match and match["plugin"] == "file":
            return items_in(item.path) if item.kind == "folder" else [item]
    return []


def _name_of(item: FolderItem) -> str:
    match = MOODLE.fullmatch(item.path.name)
    return match["file"] if match else item.path.name


def _is_moodle(items: list[FolderItem]) -> bool:
    of_moodle = [item for item in items if MOODLE.fullmatch(item.stem)]
    graded = [i for i in items if i.kind in ("archive", "module", "folder")]
    return bool(of_moodle) and all(item in of_moodle for item in graded)


DOWNLOAD = Download("Moodle", MOODLE, _is_moodle, moodle)
