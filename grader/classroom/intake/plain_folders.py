"""Read archives and folders that are named by hand."""

import os
import re
from contextlib import suppress

import msgspec

from grader.base import removable
from grader.base.errors import UsageError
from grader.classroom.class_records import HandedIn
from grader.classroom.intake.folder_items import (
    EXPORT,
    READABLE,
    REASONS,
    Download,
    FolderItem,
    Found,
    first_notes,
    items_in,
    notes_of_skipped,
    past_moment,
    shown,
)
from grader.classroom.intake.git_clones import warn_of_clones
from kit.safe_text import counted

DOWNLOADS: dict[str, Download] = removable.objects("grader.classroom.intake.removable", "DOWNLOAD")


# What students hand in by mistake; other files are probably the teaching assistant's.
UNREADABLE = re.compile(r"(\.tar)?\.(rar|7z|tar|bz2|xz|pdf|docx?|odt|pages)$", re.IGNORECASE)
# A date, or a moment without punctuation; eight digits alone may be an id.
DATE = re.compile(r"(?<!\d)(\d{4}([-._])\d\d?\2\d\d?|\d\d?([-._])\d\d?\3\d{4}|\d{8}T\d{4,6})(?!\d)")
AGAIN = re.compile(r" ?\(\d{1,2}\)$")  # what a browser adds to the name of a second download
MOST_ATTEMPTS = 100  # of one student: each may take as long as a submission may
TIMED = re.compile(
    r"(?P<student>.+)@(?P<time>\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*)", re.ASCII | re.DOTALL
)


def plain(items: list[FolderItem]) -> Found:
    """Read archives and folders that are named by hand."""
    handed_in: list[HandedIn] = []
    notes: list[str] = []
    graded = [item for item in items if item.kind in ("archive", "folder", "module")]
    for item in graded:
        _check_that_it_is_a_student(item, alone=len(items) == 1)
        whole = _one_of_a_student(item)
        attempts, unread = _attempts(item, whole)
        handed_in += attempts or [whole]
        notes += unread
    doubtful = _warnings(graded, len(handed_in))
    others = [item for item in items if item not in graded]
    for item in [item for item in others if item.kind == "file" and UNREADABLE.search(item.name)]:
        others.remove(item)
        handed_in.append(_unreadable(item))
    return Found(handed_in, [*doubtful, *first_notes(notes), *notes_of_skipped(others)])


def _warnings(graded: list[FolderItem], attempts: int) -> list[str]:
    archives = [item for item in graded if item.kind == "archive"]
    found = [note for one in DOWNLOADS.values() for note in _warn_of(one, archives)]
    found += [*_warn_of_times(graded), *warn_of_clones(graded)]
    if len(graded) == 1 < attempts:
        found.append(
            f"{graded[0].name} is the only folder, and its {attempts} archives are taken as "
            "attempts of one student; if it contains the whole class, pass that folder instead."
        )
    return found


def _unreadable(item: FolderItem) -> HandedIn:
    """A file that a student may have handed in, which a person has to look at."""
    named = FolderItem(item.path.with_name(UNREADABLE.sub("", item.path.name)), "folder")
    return msgspec.structs.replace(
        _one_of_a_student(named),
        path=item.path,
        doubt=f"{item.name} cannot be graded: expected {READABLE}",
    )


def _check_that_it_is_a_student(item: FolderItem, *, alone: bool) -> None:
    """Refuse a folder that cannot be one student's, who may have written Gradescope's file."""
    if item.kind != "folder":
        return
    submissions = item.path.glob("submission_[0-9]*") if alone else ()
    if any(map(os.path.isdir, submissions)) and os.path.isfile(item.path / EXPORT):
        raise UsageError(f"{shown(item.path)} is a Gradescope export; pass that folder instead")
    if item.path.name == "assignment":
        raise UsageError(
            f"{shown(item.path.parent)} is a single submission; pass the folder of the whole class"
        )


def _one_of_a_student(item: FolderItem) -> HandedIn:
    """Split `ada@2026-10-01T22-10-00Z` into student and time; a time that is none is in doubt."""
    name = item.stem if item.kind == "folder" else AGAIN.sub("", item.stem)
    match = TIMED.fullmatch(name)
    if not match:
        return HandedIn(path=item.path, key=name or item.stem)
    at, doubt = past_moment(match["time"], item.name)
    return HandedIn(path=item.path, key=match["student"], submitted_at=at, doubt=doubt)


def _attempts(item: FolderItem, whole: HandedIn) -> Found:
    """A record for each archive in a folder without the assignment, and notes on the rest."""
    inside: list[FolderItem] = []
    with suppress(UsageError):
        inside = items_in(item.path) if item.kind == "folder" else []
    folders = [i.path for i in inside if i.kind == "folder"]
    if any(os.path.isdir(path / "assignment") for path in [item.path, *folders]):
        return Found([], [])
    archives = [i for i in inside if i.kind == "archive"]
    if len(archives) > MOST_ATTEMPTS:
        found = f"its folder has {len(archives):,} archives; expected at most {MOST_ATTEMPTS}"
        return Found([msgspec.structs.replace(whole, doubt=found)], [])
    archives.sort(key=lambda archive: (archive.path.lstat().st_mtime, archive.path.name))
    links = [
        f"{item.name}/{i.name} is left out: {REASONS[i.kind]}."
        for i in inside
        if i.kind in ("link", "hidden")
    ]
    dated = [
        f"{item.name}/{i.name}: the time in its name is ignored, because a student can choose the "
        "names in this folder."
        for i in archives
        if TIMED.fullmatch(i.stem)
    ]
    each = [
        msgspec.structs.replace(whole, path=i.path, number=number)
        for number, i in enumerate(archives, start=1)
    ]
    return Found(each, links + dated)


def _warn_of_times(items: list[FolderItem]) -> list[str]:
    """Warn of times in names that are not where a time is read."""
    found = [i.name for i in items if DATE.search(i.stem) and not TIMED.fullmatch(i.stem)]
    if not found:
        return []
    more = f", and so do {len(found) - 1} more names" if found[1:] else ""
    return [
        f"{found[0]} holds a time that is not read{more}: "
        "--layout, such as '{id}_{time}.zip', reads one like 2026-10-01T22-10-00Z"
    ]


def _warn_of(download: Download, archives: list[FolderItem]) -> list[str]:
    """Warn if only some archives have such names, because then no id is read from any name."""
    others = [item.name for item in archives if not download.names.fullmatch(item.stem)]
    if len(others) in (0, len(archives)):
        return []
    have = counted(len(archives) - len(others), "archive has a name", "archives have names")
    return [
        f"{have} as in a {download.name} download, but "
        f"{others[0]} does not, so the whole name of each archive is taken as a student; move the "
        "other files elsewhere."
    ]
