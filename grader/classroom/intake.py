"""List a class's submissions in one folder, which has one of four layouts.

Gradescope's export
    `submission_metadata.yml` next to one folder `submission_<number>/` per submission. The file
    lists the students, the time and the earlier submissions of each folder.
Gradescope's folders for an autograder
    One folder per submission, each with a `submission_metadata.json`. The grader recognises this
    layout only if every folder has such a file, and if there are several folders or the only one is
    named `submission_<number>`; otherwise the file may come from a student.
Canvas' download
    Archives named `<name>[_LATE]_<user id>_<attachment id>_<file>.zip`. Attachments are numbered in
    the order in which they were handed in. The student chooses the rest of the name.
Plain
    `<student>.zip`, `<student>.tar.gz`, `<student>.tgz` or a folder `<student>/`. A name may end
    with the time, as in `ada@2026-10-01T22:10:00Z.zip` or `ada@2026-10-01T22-10-00+0200.zip`. A
    folder that has archives but no assignment/ gives one attempt per archive. They all get the
    folder's time, because the student chooses the names inside it.

Names and metadata are untrusted: this module opens no archive, follows no link, and parses the
metadata without constructing any object that it names.
"""

import itertools
import os
import re
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import yaml

from grader.base import files
from grader.base.errors import UsageError
from grader.classroom.records import HandedIn
from kit.text import one_line

EXPORT = "submission_metadata.yml"
METADATA = "submission_metadata.json"
MAX_METADATA_BYTES = 64 * 2**20
MAX_DEPTH = 100  # of nested lists and mappings in the export's metadata
MAX_SUBMITTERS = 1000  # of one submission
MAX_NAME = 300
MAX_NOTES = 10  # of one kind

SUFFIX = re.compile(r"\.(zip|tar\.gz|tgz)$", re.IGNORECASE)
IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}

# A name without "_" comes first, then the mark for lateness, the two ids and the student's own file
# name. The attachment id has to fit into a column of the gradebook.
CANVAS = re.compile(
    r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<user>\d+)_(?P<attachment>\d{1,18})_.*",
    re.ASCII | re.DOTALL,
)
GRADESCOPE = re.compile(r"submission_\d+", re.ASCII)
TIMED = re.compile(r"(?P<student>.+)@(?P<time>\d{4}-\d\d-\d\d.*)", re.ASCII | re.DOTALL)
TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<hour>\d\d)[:-](?P<minute>\d\d)[:-](?P<second>\d\d)"
    r"(?:\.(?P<fraction>\d+))? ?(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)

# Why an entry of each kind is skipped, in every layout.
REASONS = {
    "link": "it is a link, and links are not followed",
    "special": "it is neither a file nor a folder",
    "file": "it is not a .zip, a .tar.gz or a folder",
}
EXPECTED = (
    "expected <student>.zip, <student>.tar.gz, folders <student>/, the files of a Canvas download "
    "or an unpacked Gradescope export"
)


@dataclass(frozen=True)
class Intake:
    """A class's submissions.

    Attributes:
        handed_in: The submissions, sorted by key, time, number and path. A group's submission
            occurs once per member.
        notes: Sentences for the teaching assistant about skipped entries and suspicious names.
    """

    handed_in: list[HandedIn]
    notes: list[str]


@dataclass(frozen=True)
class _FolderItem:
    """One entry of the folder; `kind` is "archive", "folder", "file", "link" or "special"."""

    path: Path
    kind: str

    @property
    def name(self) -> str:
        return one_line(self.path.name, MAX_NAME)

    @property
    def stem(self) -> str:
        """The name without an archive's suffix, in Unicode normal form C."""
        name = unicodedata.normalize("NFC", self.path.name)
        return one_line(SUFFIX.sub("", name) if self.kind == "archive" else name, MAX_NAME)


def recognise(folder: Path) -> Intake:
    """List the submissions in a class's folder.

    Raises:
        UsageError: The folder or its metadata cannot be read, or it has nothing to grade.
    """
    items = _items(folder)
    handed_in, notes = _layout(items)(items)
    if not handed_in:
        raise UsageError(f"{_shown(folder)} has nothing to grade: {EXPECTED}")
    return Intake(sorted(set(handed_in), key=_order), notes)


def _layout(
    items: list[_FolderItem],
) -> Callable[[list[_FolderItem]], tuple[list[HandedIn], list[str]]]:
    """Choose the function that reads the folder's layout."""
    archives = [item for item in items if item.kind == "archive"]
    folders = [item for item in items if item.kind == "folder"]
    if any(item.path.name == EXPORT and item.kind == "file" for item in items):
        return _export
    named = len(folders) > 1 or all(GRADESCOPE.fullmatch(f.path.name) for f in folders)
    if folders and not archives and named and all(_has_file(f.path, METADATA) for f in folders):
        return _autograder_folders
    if archives and all(CANVAS.fullmatch(item.stem) for item in archives):
        return _canvas
    return _plain


def _order(item: HandedIn) -> tuple[str, float, int, str]:
    at = item.submitted_at.timestamp() if item.submitted_at else 0.0
    return item.key, at, item.number or 0, os.fsdecode(item.path)


# --- the files on disk ----------------------------------------------------------------------------


def _items(folder: Path) -> list[_FolderItem]:
    """The entries of a folder, sorted by name, without hidden files and system files."""
    try:
        with os.scandir(folder) as entries:
            found = [_FolderItem(folder / entry.name, _kind(entry)) for entry in entries]
    except FileNotFoundError:
        raise UsageError(f"{_shown(folder)} does not exist") from None
    except NotADirectoryError:
        raise UsageError(f"{_shown(folder)} is a file; name the folder that it is in") from None
    except OSError as e:
        raise UsageError(f"{_shown(folder)} cannot be read: {e.strerror}") from None
    seen = [
        item
        for item in found
        if not item.path.name.startswith(".") and item.path.name.casefold() not in IGNORED
    ]
    return sorted(seen, key=lambda item: item.path.name)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if not entry.is_file(follow_symlinks=False):
        return "special"
    return "archive" if SUFFIX.search(entry.name) else "file"


def _has_file(folder: Path, name: str) -> bool:
    """Whether a folder has a plain file of this name; False if the folder cannot be read."""
    with suppress(OSError):
        return stat.S_ISREG((folder / name).lstat().st_mode)
    return False


def _text_of(path: Path) -> str:
    """Read a file of metadata."""
    return files.decoded(path, files.read(path, most=MAX_METADATA_BYTES))


def _shown(path: Path) -> str:
    return one_line(str(path), MAX_NAME)


# --- Gradescope -----------------------------------------------------------------------------------


class _Submitter(msgspec.Struct, frozen=True):
    """A student in Gradescope's metadata."""

    name: str | None = None
    sid: str | int | None = None
    email: str | None = None
    id: str | int | None = None


class _Exported(msgspec.Struct, frozen=True):
    """A submission in the export's metadata."""

    submitters: list[_Submitter] | None = None
    created_at: str | None = None
    earlier: int = 0


class _AutograderMetadata(msgspec.Struct, frozen=True):
    """The metadata that an autograder gets with one submission."""

    users: list[_Submitter] | None = None
    created_at: str | None = None
    previous_submissions: list[msgspec.Raw] | None = None


def _export(items: list[_FolderItem]) -> tuple[list[HandedIn], list[str]]:
    """Read Gradescope's export."""
    source = next(item.path for item in items if item.path.name == EXPORT)
    described = _described(source)
    folders = {item.path.name: item for item in items if item.kind == "folder"}
    handed_in: list[HandedIn] = []
    nameless: list[str] = []
    for name, item in folders.items():
        submission = described.get(name, _Exported())
        handed_in += _of_submitters(
            item,
            submission.submitters or [],
            _moment(submission.created_at, f"{_shown(source)}: {item.name}"),
            submission.earlier + 1 if name in described else None,
        )
        if not submission.submitters:
            nameless.append(f"{item.name} has no student in {EXPORT}.")
    absent = [
        f"{one_line(name, MAX_NAME)} is in {EXPORT}, but its folder is missing."
        for name in sorted(described.keys() - folders.keys())
    ]
    others = [i for i in items if i.kind != "folder" and i.path != source]
    skipped = _skipped(others, archive="it is not part of the Gradescope export")
    return handed_in, [*_first(nameless), *_first(absent), *skipped]


def _described(path: Path) -> dict[str, _Exported]:
    """Read the export's metadata of each folder."""
    try:
        tree = _tree(_text_of(path))
    except yaml.YAMLError as e:
        problem = one_line(getattr(e, "problem", None) or "it cannot be parsed", 200)
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{_shown(path)}{line} is not valid metadata: {problem}") from None
    if not isinstance(tree, dict):
        raise UsageError(f"{_shown(path)} describes no submissions; export them again")
    described = {}
    for name, fields in tree.items():
        try:
            described[name] = msgspec.convert(_relevant(fields), _Exported)
        except msgspec.ValidationError as e:
            raise UsageError(
                f"{_shown(path)}: {one_line(name, MAX_NAME)} is not in Gradescope's format: "
                f"{one_line(str(e), 200)}"
            ) from None
    return described


def _relevant(fields: object) -> object:
    """Keep the fields that the grader needs. Their keys are Ruby symbols, like `:sid`."""
    if not isinstance(fields, dict):
        return fields
    fields = _without_colons(fields)
    submitters, history = fields.get("submitters"), fields.get("history")
    if isinstance(submitters, list):
        submitters = [
            _without_colons(one) if isinstance(one, dict) else one
            for one in submitters[: MAX_SUBMITTERS + 1]
        ]
    return {
        "submitters": submitters,
        "created_at": fields.get("created_at"),
        "earlier": len(history) if isinstance(history, list) else 0,
    }


def _without_colons(fields: dict[str, object]) -> dict[str, object]:
    return {key.removeprefix(":"): value for key, value in fields.items()}


def _tree(text: str) -> object:
    """Build dicts, lists, strings and None from YAML.

    PyYAML's own loaders turn an unquoted 0123 into the number 83, take exponential time to merge
    mappings, and overflow the C stack on deep nesting. PyYAML's event stream has none of these
    problems. An alias becomes a second reference, so it takes no memory.

    Raises:
        yaml.YAMLError: The text is not YAML, or uses features that an export does not need.
    """
    root: list[object] = []
    stack: list[tuple[object, list[object]]] = [(None, root)]
    anchors: dict[str, object] = {}
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            _close(*stack.pop(), event)
        elif isinstance(event, yaml.NodeEvent):
            value = _value(event, anchors)
            stack[-1][1].append(value)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append((value, []))
            if len(stack) > MAX_DEPTH:
                raise _unfit(event, f"it is nested more than {MAX_DEPTH} levels deep")
    return root[0] if len(root) == 1 else None


def _value(event: yaml.Event, anchors: dict[str, object]) -> object:
    """The value that starts at this event: text, None, an empty container or an aliased value."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise _unfit(event, "it refers to an anchor that it does not define")
        return anchors[event.anchor]
    tag = getattr(event, "tag", None)
    if tag not in (None, "!"):
        raise _unfit(event, f"the tag {tag} is not allowed")
    value: object
    if isinstance(event, yaml.ScalarEvent):
        null = event.style is None and event.value in ("", "~", "null", "Null", "NULL")
        value = None if null else event.value
    else:
        value = {} if isinstance(event, yaml.MappingStartEvent) else []
    if anchor := getattr(event, "anchor", None):
        anchors[anchor] = value
    return value


def _close(container: object, children: list[object], event: yaml.Event) -> None:
    """Fill a list or dict with its collected values."""
    if isinstance(container, list):
        container += children
    elif isinstance(container, dict):
        keys = children[::2]
        if not all(isinstance(key, str) for key in keys):
            raise _unfit(event, "a key is not text")
        container.update(zip(keys, children[1::2], strict=True))


def _unfit(event: yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    mark = getattr(event, "start_mark", None)  # typed as either of two classes
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _autograder_folders(items: list[_FolderItem]) -> tuple[list[HandedIn], list[str]]:
    """Read folders with the metadata that Gradescope gives an autograder."""
    handed_in: list[HandedIn] = []
    for item in (item for item in items if item.kind == "folder"):
        path = item.path / METADATA
        try:
            metadata = msgspec.json.decode(_text_of(path), type=_AutograderMetadata)
        except (msgspec.MsgspecError, ValueError, RecursionError) as e:
            raise UsageError(
                f"{_shown(path)} is not Gradescope's metadata: {one_line(str(e), 200)}"
            ) from None
        handed_in += _of_submitters(
            item,
            metadata.users or [],
            _moment(metadata.created_at, _shown(path)),
            len(metadata.previous_submissions or []) + 1,
        )
    return handed_in, _skipped([item for item in items if item.kind != "folder"])


def _of_submitters(
    item: _FolderItem, submitters: list[_Submitter], at: datetime | None, number: int | None
) -> Iterator[HandedIn]:
    """One record per student of a submission; if none is named, one with the folder's name."""
    if len(submitters) > MAX_SUBMITTERS:
        raise UsageError(f"{item.name} has more than {MAX_SUBMITTERS} students in its metadata")
    for who in submitters:
        known = (str(who.sid or ""), who.email, str(who.id or ""), who.name)
        names = [clean for value in known if (clean := _clean(value))] or [item.stem]
        yield HandedIn(
            path=item.path,
            key=one_line(names[0], MAX_NAME),
            known_as=tuple(names[1:]),
            student_name=_clean(who.name),
            email=_clean(who.email),
            submitted_at=at,
            number=number,
        )
    if not submitters:
        yield HandedIn(path=item.path, key=item.stem, submitted_at=at, number=number)


def _clean(value: str | None) -> str:
    """A text on one line, in Unicode normal form C; empty for None."""
    return " ".join(unicodedata.normalize("NFC", value or "").split())[:MAX_NAME]


# --- Canvas ---------------------------------------------------------------------------------------


def _canvas(items: list[_FolderItem]) -> tuple[list[HandedIn], list[str]]:
    """Read the archives of Canvas' download."""
    handed_in: dict[tuple[str, int], list[HandedIn]] = defaultdict(list)
    for item in (item for item in items if item.kind == "archive"):
        match = CANVAS.fullmatch(item.stem)
        assert match is not None  # _layout has checked all of them
        key, number = match["user"], int(match["attachment"])
        handed_in[key, number].append(
            HandedIn(
                path=item.path,
                key=key,
                student_name=match["name"],
                late=match["late"] is not None,
                number=number,
            )
        )
    others = [item for item in items if item.kind != "archive"]
    found = [one for same in handed_in.values() for one in _in_doubt_if_several(same)]
    return found, _skipped(others, folder="it is not part of a Canvas download")


def _in_doubt_if_several(same: list[HandedIn]) -> list[HandedIn]:
    """Mark archives of one student that share an attachment id: a person must choose one."""
    if len(same) == 1:
        return same
    names = " and ".join(one_line(one.path.name, 100) for one in same[:2])
    doubt = f"{names} have the same attachment id; remove the one that does not count"
    return [msgspec.structs.replace(one, doubt=doubt) for one in same]


# --- plain files and folders ----------------------------------------------------------------------


def _plain(items: list[_FolderItem]) -> tuple[list[HandedIn], list[str]]:
    """Read archives and folders that are named by hand."""
    handed_in: list[HandedIn] = []
    notes: list[str] = []
    by_student: dict[str, list[HandedIn]] = defaultdict(list)
    graded = [item for item in items if item.kind in ("archive", "folder")]
    for item in graded:
        notes += _check_that_it_is_a_student(item, alone=len(items) == 1)
        whole = _one_of_a_student(item)
        student = whole.key
        by_student[unicodedata.normalize("NFKC", student).casefold()].append(whole)
        attempts, unread = _attempts(item, whole)
        handed_in += attempts or [whole]
        notes += unread
    doubts = {
        path: doubt for entries in by_student.values() for path, doubt in _doubts(entries).items()
    }
    handed_in = [
        msgspec.structs.replace(
            one, doubt=one.doubt or doubts.get(one.path) or doubts.get(one.path.parent, "")
        )
        for one in handed_in
    ]
    doubtful = _warn_of_canvas(item for item in graded if item.kind == "archive")
    if len(graded) == 1 < len(handed_in):
        doubtful.append(
            f"{graded[0].name} is the only folder, and its {len(handed_in)} archives are taken as "
            "attempts of one student; if it contains the whole class, pass that folder instead."
        )
    others = [item for item in items if item.kind not in ("archive", "folder")]
    return handed_in, [*doubtful, *_first(notes), *_skipped(others)]


def _check_that_it_is_a_student(item: _FolderItem, *, alone: bool) -> list[str]:
    """Refuse a folder that cannot be one student's, because the user named the wrong folder.

    A student's folder may also contain Gradescope's files; they are ignored with a note.

    Args:
        item: The entry of the class's folder.
        alone: Whether it is the only entry.
    """
    if item.kind != "folder":
        return []
    if alone and _has_file(item.path, EXPORT) and _has_submissions(item.path):
        raise UsageError(f"{_shown(item.path)} is a Gradescope export; pass that folder instead")
    if item.path.name == "assignment":
        raise UsageError(
            f"{_shown(item.path.parent)} is a single submission; pass the folder of the whole class"
        )
    return [
        f"{item.name}/{name} is ignored: it is in one student's folder, and the student may have "
        "written it."
        for name in (EXPORT, METADATA)
        if _has_file(item.path, name)
    ]


def _has_submissions(folder: Path) -> bool:
    """Whether a folder has subfolders named like Gradescope's submissions."""
    with suppress(UsageError):
        return any(i.kind == "folder" and GRADESCOPE.fullmatch(i.path.name) for i in _items(folder))
    return False


def _one_of_a_student(item: _FolderItem) -> HandedIn:
    """Split `ada@2026-10-01T22-10-00Z` into the student and the time; the time may be missing.

    If the time cannot be parsed, the entry is in doubt.
    """
    match = TIMED.fullmatch(item.stem)
    if not match:
        return HandedIn(path=item.path, key=item.stem)
    try:
        at = _moment(match["time"], item.name)
    except UsageError as e:
        return HandedIn(path=item.path, key=match["student"], doubt=str(e))
    return HandedIn(path=item.path, key=match["student"], submitted_at=at)


def _attempts(item: _FolderItem, whole: HandedIn) -> tuple[list[HandedIn], list[str]]:
    """A record for each archive in a student's folder, and notes on ignored links and times.

    There are no records if `item` is an archive, or a folder that has the assignment or cannot be
    read: then `whole` counts.
    """
    inside: list[_FolderItem] = []
    with suppress(UsageError):
        inside = _items(item.path) if item.kind == "folder" else []
    folders = [i.path for i in inside if i.kind == "folder"]
    if any(os.path.isdir(path / "assignment") for path in [item.path, *folders]):
        return [], []
    archives = [i for i in inside if i.kind == "archive"]
    archives.sort(key=lambda archive: (_modified(archive), archive.path.name))
    links = [
        f"{item.name}/{i.name} is left out: {REASONS['link']}." for i in inside if i.kind == "link"
    ]
    dated = [
        f"{item.name}/{i.name}: the time in its name is ignored, because a student can choose the "
        "names in this folder."
        for i in archives
        if TIMED.fullmatch(i.stem)
    ]
    return [
        msgspec.structs.replace(whole, path=i.path, number=number)
        for number, i in enumerate(archives, start=1)
    ], links + dated


def _modified(item: _FolderItem) -> float:
    """When an archive was modified."""
    try:
        return item.path.lstat().st_mtime
    except OSError as e:
        raise UsageError(f"{_shown(item.path)} cannot be read: {e.strerror}") from None


def _doubts(entries: list[HandedIn]) -> dict[Path, str]:
    """For each doubtful entry of a student, why a person has to decide which one counts.

    Several entries count as attempts only if each has a different time.
    """
    doubts: dict[Path, str] = {}
    for first, second in itertools.pairwise(sorted(entries, key=_order)):
        names = f"{one_line(first.path.name, 100)} and {one_line(second.path.name, 100)}"
        if first.key != second.key:
            doubt = (
                f"{names} name students that differ only in case or spelling; rename one, or "
                "remove the one that does not count"
            )
        elif first.submitted_at is None or first.submitted_at == second.submitted_at:
            doubt = (
                f"{names} are from one student, and nothing says which was handed in last; remove "
                "the one that does not count, or add a time to each name, as in "
                f"{first.key}@2026-10-01T22-10-00Z.zip"
            )
        else:
            continue
        doubts |= {first.path: doubt, second.path: doubt}
    return doubts


def _warn_of_canvas(archives: Iterable[_FolderItem]) -> list[str]:
    """Warn if only some archives have Canvas' names, because then no id is read from any name."""
    named = {True: 0, False: 0}
    example = ""
    for item in archives:
        matches = CANVAS.fullmatch(item.stem) is not None
        named[matches] += 1
        example = example or ("" if matches else item.name)
    if not named[True]:
        return []
    return [
        f"{named[True]} archives have names as in a Canvas download, but {example} does not, so "
        "the whole name of each archive is taken as a student; move the other files elsewhere."
    ]


# --- times and notes ------------------------------------------------------------------------------


def _moment(text: str | None, where: str) -> datetime | None:
    """Parse a time; None if there is no text.

    Raises:
        UsageError: It is not a time, or has no time zone. The message starts with `where`.
    """
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
    try:
        at = datetime.fromisoformat(f"{match['day']}T{clock}{zone}")
        at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{where}: {shown} is not a possible time") from None
    return at


def _skipped(items: list[_FolderItem], **reasons: str) -> list[str]:
    """A sentence for each skipped entry; `reasons` adds to REASONS for the layout."""
    why = REASONS | reasons
    return _first([f"{item.name} is left out: {why[item.kind]}." for item in items])


def _first(notes: list[str]) -> list[str]:
    """The first notes of a kind, then the number of the others."""
    if len(notes) <= MAX_NOTES:
        return notes
    return [*notes[:MAX_NOTES], f"There are {len(notes) - MAX_NOTES} more notes of this kind."]
