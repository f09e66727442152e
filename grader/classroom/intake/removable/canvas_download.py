"""Read Canvas' download of an assignment: files whose names say whose they are."""

import re
from collections import defaultdict

import msgspec

from grader.classroom.class_records import HandedIn
from grader.classroom.intake.folder_items import (
    READABLE,
    Download,
    FolderItem,
    Found,
    first_notes,
    notes_of_skipped,
)

# A name without "_", which may be empty, comes first, then the mark for lateness, the two ids and
# the student's own file name. A year and a month are no ids. The attachment id has to fit into a
# column of the gradebook.
CANVAS = re.compile(
    r"(?P<name>[^_]*)(?P<late>_LATE)?_(?!20\d\d_\d\d?_)(?P<user>\d+)_(?P<attachment>\d{1,18})"
    r"_(?P<file>.*)",
    re.ASCII | re.DOTALL,
)


def canvas(items: list[FolderItem]) -> Found:
    """Read the files of Canvas' download.

    Each archive is an attempt. A student's modules are one attempt, because Canvas downloads the
    files of the latest one. A student who handed in nothing else than files that cannot be graded
    is in doubt, so that a person sees why there is no grade.
    """
    by_student: dict[str, list[FolderItem]] = defaultdict(list)
    for item in items:
        if (match := CANVAS.fullmatch(item.stem)) and item.kind in ("archive", "module", "file"):
            by_student[match["user"]].append(item)
    each = [_of_a_student(theirs) for theirs in by_student.values()]
    seen = {item.path for theirs in by_student.values() for item in theirs}
    others = [item for item in items if item.path not in seen]
    notes = first_notes([note for one in each for note in one.notes])
    notes += notes_of_skipped(others, folder="it is not part of a Canvas download")
    return Found([one for found in each for one in found.handed_in], notes)


def _of_a_student(theirs: list[FolderItem]) -> Found:
    """One student's attempts, and notes about the files that are none."""
    archives = [item for item in theirs if item.kind == "archive"]
    modules = [item for item in theirs if item.kind == "module"]
    if not archives and not modules:
        return Found([_unreadable(theirs[0])], [])
    found = [_record(item) for item in archives] or [_of_modules(modules)]
    return Found(found, notes_of_skipped([i for i in theirs if i not in (archives or modules)]))


def _match(name: str) -> re.Match[str]:
    match = CANVAS.fullmatch(name)
    assert match is not None  # the caller has checked it
    return match


def _record(item: FolderItem) -> HandedIn:
    match = _match(item.stem)
    return HandedIn(
        path=item.path,
        key=match["user"],
        student_name=match["name"],
        late=match["late"] is not None,
        number=int(match["attachment"]),
    )


def _of_modules(modules: list[FolderItem]) -> HandedIn:
    """One attempt of a student's modules; of two with the same name, the later one counts."""
    each = sorted(map(_record, modules), key=lambda one: one.number or 0)
    parts = {_match(one.path.name)["file"]: one.path for one in each}
    return msgspec.structs.replace(
        each[-1], late=any(one.late for one in each), parts=tuple(parts.items())
    )


def _unreadable(item: FolderItem) -> HandedIn:
    doubt = f"{item.name} cannot be graded: expected {READABLE}"
    return msgspec.structs.replace(_record(item), doubt=doubt)


def _is_canvas(items: list[FolderItem]) -> bool:
    of_canvas = [i for i in items if CANVAS.fullmatch(i.stem) and i.kind != "folder"]
    readable = [i for i in items if i.kind in ("archive", "module")]
    if not of_canvas or not (readable or not [i for i in items if i.kind == "folder"]):
        return False
    matches = [m for m in map(CANVAS.fullmatch, [i.stem for i in of_canvas]) if m]
    named = {(m["user"], m["name"]) for m in matches}  # each user has one name
    return all(i in of_canvas for i in readable) and len(named) == len({m["user"] for m in matches})


DOWNLOAD = Download("Canvas", CANVAS, _is_canvas, canvas)
