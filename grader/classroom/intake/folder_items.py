"""The entries of a class's folder, times in names and metadata, and notes about what is skipped.

Names and metadata are untrusted: nothing here opens an archive or follows a link.
"""

import os
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from grader.base import files
from grader.base.errors import UsageError
from grader.classroom.class_records import HandedIn
from kit.safe_text import counted, one_line

EXPORT = "submission_metadata.yml"
MAX_METADATA_BYTES = 64 * 2**20
MAX_NAME = 300
MAX_NOTES = 10  # of one kind
FUTURE = timedelta(days=366)  # the clock of this machine may be wrong, but not by so much

SUFFIX = re.compile(r"(\.(zip|tar\.gz|tgz))+$", re.IGNORECASE)
MODULE = re.compile(r"\.(py|ipynb)$")
READABLE = "a .zip, a .tar.gz, a folder, or modules (.py, .ipynb)"
# What systems hide. A submission that is hidden is told, but for macOS' companions `._ada.zip`.
ADDED = re.compile(r"\.(?!(?!_)(.*\.)?(zip|tar\.gz|tgz|py|ipynb)$)", re.IGNORECASE | re.DOTALL)
IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}
TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<hour>\d\d)[:-](?P<minute>\d\d)[:-](?P<second>\d\d)"
    r"(?:\.(?P<fraction>\d+))? ?(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)

REASONS = {
    "link": "it is a link, and links are not followed",
    "special": "it is neither a file nor a folder",
    "file": f"it is not {READABLE}",
    "hidden": "its name begins with a dot",
    "module": "it is a module beside other submissions of its student",
}


class Found(NamedTuple):
    """What a folder has."""

    handed_in: list[HandedIn]
    notes: list[str]


@dataclass(frozen=True)
class FolderItem:
    """An entry, whose kind is archive, folder, module, file, hidden, link or special."""

    path: Path
    kind: str

    @property
    def name(self) -> str:
        return one_line(self.path.name, MAX_NAME)

    @property
    def stem(self) -> str:
        """The name in Unicode normal form C, without an archive's or a module's suffix.

        A blank before the suffix is no name, so the suffix stays.
        """
        name = unicodedata.normalize("NFC", self.path.name)
        suffix = {"archive": SUFFIX, "module": MODULE}.get(self.kind)
        bare = suffix.sub("", name) if suffix else name
        return one_line(bare if bare.strip() else name, MAX_NAME)


@dataclass(frozen=True)
class Download:
    """A platform's download of an assignment, whose names say whose each file is."""

    name: str  # the platform
    names: re.Pattern[str]  # what the name of each entry looks like, without suffixes
    fits: Callable[[list[FolderItem]], bool]  # whether a folder is such a download
    read: Callable[[list[FolderItem]], Found]  # reads it


def items_in(folder: Path) -> list[FolderItem]:
    """The entries of a folder, sorted by name, without what systems add and hide."""
    try:
        with os.scandir(folder) as listed:
            found = [FolderItem(folder / entry.name, _kind(entry)) for entry in listed]
    except FileNotFoundError:
        raise UsageError(f"{shown(folder)} does not exist") from None
    except NotADirectoryError:
        raise UsageError(f"{shown(folder)} is a file; name the folder that it is in") from None
    except OSError as e:
        raise UsageError(f"{shown(folder)} cannot be read: {e.strerror}") from None
    seen = [
        item
        for item in found
        if not ADDED.match(item.path.name) and item.path.name.casefold() not in IGNORED
    ]
    return sorted(seen, key=lambda item: item.path.name)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.name.startswith("."):
        return "hidden"
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if not entry.is_file(follow_symlinks=False):
        return "special"
    if SUFFIX.search(entry.name):
        return "archive"
    return "module" if MODULE.search(entry.name) else "file"


def text_of(path: Path) -> str:
    return files.decoded(path, files.read(path, most=MAX_METADATA_BYTES))


def shown(path: Path) -> str:
    """A path for a message: on one line, with unsafe characters escaped."""
    return one_line(str(path), MAX_NAME)


def order(item: HandedIn) -> tuple[float, int, str]:
    """The key to sort attempts by, from first to last; one without a time is before all others."""
    at = item.submitted_at.timestamp() if item.submitted_at else float("-inf")
    return at, item.number or 0, os.fsdecode(item.path)


def moment(text: str | None, where: str) -> datetime | None:
    """Parse a time with a zone, or None without a text; `where` begins the UsageError."""
    if not text:
        return None
    shown = one_line(text, 100)
    match = TIME.fullmatch(text)
    if match is None:
        raise UsageError(f"{where}: {shown} is not a time like 2026-10-01T22:10:00Z")
    if match["zone"] is None:
        raise UsageError(
            f"{where}: the time {shown} has no zone; add Z for UTC, or an offset such as +02:00"
        )
    fraction = (match["fraction"] or "")[:6].ljust(6, "0")
    zone = "+00:00" if match["zone"] in ("Z", "UTC") else match["zone"]
    clock = f"{match['hour']}:{match['minute']}:{match['second']}.{fraction}"
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(f"{match['day']}T{clock}{zone}")
        if is_possible(at):
            return at
    raise UsageError(f"{where}: {shown} is not a possible time")


def past_moment(text: str | None, where: str) -> tuple[datetime | None, str]:
    """The time in a name, where a person may have mistaken the year, and why it is in doubt."""
    try:
        at = moment(text, where)
    except UsageError as e:
        return None, str(e)
    if at and at > datetime.now(UTC) + FUTURE:
        return None, f"{where}: its time is in the future: correct it, and run batch again"
    return at, ""


def is_possible(at: datetime) -> bool:
    """Whether a time is within the years that Python knows, in every time zone."""
    return 2 <= at.year < MAXYEAR and 2 <= at.astimezone(UTC).year < MAXYEAR


def notes_of_skipped(items: list[FolderItem], **reasons: str) -> list[str]:
    """A sentence for each skipped entry; `reasons` adds to REASONS for the layout."""
    why = REASONS | reasons
    return first_notes([f"{item.name} is left out: {why[item.kind]}." for item in items])


def first_notes(notes: list[str]) -> list[str]:
    """The first notes of a kind, then the number of the others."""
    if len(notes) <= MAX_NOTES:
        return notes
    left = len(notes) - MAX_NOTES
    are = "is" if left == 1 else "are"
    return [*notes[:MAX_NOTES], f"There {are} {counted(left, 'more note')} of this kind."]
