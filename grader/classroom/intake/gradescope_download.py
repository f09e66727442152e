"""Read Gradescope's export of a class."""

import unicodedata
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from grader.base.errors import UsageError
from grader.base.limited_reading import LimitedReader, Unread
from grader.classroom.class_records import HandedIn
from grader.classroom.intake.folder_items import (
    EXPORT,
    MAX_NAME,
    FolderItem,
    Found,
    first_notes,
    moment,
    notes_of_skipped,
    shown,
    text_of,
)
from kit.safe_text import one_line

MAX_SUBMITTERS = 1000  # of one submission
# For the metadata of a class, of which 1,000 students with 20 submissions have a million values.
SECONDS = 60.0
MEMORY_BYTES = 2**31


class _Submitter(msgspec.Struct, frozen=True):
    name: str | None = None
    sid: str | None = None
    email: str | None = None


class _Exported(msgspec.Struct, frozen=True):
    submitters: list[_Submitter] | None = None
    created_at: str | None = None
    history: Any = None
    number: int = 1  # which of the student's attempts it is, by the history


def export(items: list[FolderItem]) -> Found:
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
            moment(submission.created_at, f"{shown(source)}: {item.name}"),
            submission.number if name in described else None,
        )
        if not submission.submitters:
            nameless.append(f"{item.name} has no student in {EXPORT}.")
    absent = [
        f"{one_line(name, MAX_NAME)} is in {EXPORT}, but its folder is missing."
        for name in sorted(described.keys() - folders.keys())
    ]
    others = [i for i in items if i.kind != "folder" and i.path != source]
    skipped = notes_of_skipped(others, archive="it is not part of the Gradescope export")
    return Found(handed_in, [*first_notes(nameless), *first_notes(absent), *skipped])


def _described(path: Path) -> dict[str, _Exported]:
    text, kind = text_of(path), dict[str, _Exported]
    with LimitedReader(described, seconds=SECONDS, memory_bytes=MEMORY_BYTES, kind=kind) as reader:
        found = reader.found_in(text)
    if isinstance(found, Unread):
        raise UsageError(f"{shown(path)} {found.reason}")
    return found


def _of_submitters(
    item: FolderItem, submitters: list[_Submitter], at: datetime | None, number: int | None
) -> Iterator[HandedIn]:
    """One record per student of a submission; if none is named, one with the folder's name."""
    for who in submitters or [_Submitter()]:
        known = (who.sid, who.email, who.name)
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


def _clean(value: str | None) -> str:
    """A text on one line, in Unicode normal form C; empty for None."""
    start = (value or "")[: 4 * MAX_NAME]  # normalizing takes quadratic time
    return " ".join(unicodedata.normalize("NFC", start).split())[:MAX_NAME]


# --- in a process of its own ----------------------------------------------------------------------


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Builds dicts, lists, strings and None, whatever a tag names, and merges no mappings.

    PyYAML's other loaders turn an unquoted 0123 into the number 83, and take exponential time to
    merge mappings.
    """

    def construct_scalar(self, node: yaml.ScalarNode) -> str | None:
        """A text, or None as YAML writes it without quotes."""
        is_null = not node.style and node.value in ("", "~", "null", "Null", "NULL")
        return None if is_null else str(node.value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        """A mapping; the keys are Ruby's symbols, such as `:sid`."""
        found = super().construct_mapping(node, deep)
        return {str(key).removeprefix(":"): value for key, value in found.items()}


def described(text: str) -> dict[str, _Exported] | Unread:
    """The submissions that the metadata describe, by the names of their folders."""
    try:
        tree = _Loader(text).get_single_data()
    except yaml.YAMLError as e:
        problem = one_line(getattr(e, "problem", None) or "it cannot be parsed", 200)
        mark = getattr(e, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        return Unread(f"is not valid metadata{where}: {problem}")
    if not isinstance(tree, dict):
        return Unread("describes no submissions; export them again")
    found = {}
    for name, fields in tree.items():
        try:
            one = msgspec.convert(fields, _Exported)
        except msgspec.ValidationError as e:
            which = f"has {one_line(name, MAX_NAME)}, which is not in Gradescope's format"
            return Unread(f"{which}: {one_line(str(e), 200)}")
        if len(one.submitters or ()) > MAX_SUBMITTERS:
            return Unread(f"has more than {MAX_SUBMITTERS} students for {one_line(name, MAX_NAME)}")
        found[name] = msgspec.structs.replace(one, history=None, number=_number(one.history))
    return found


def _number(history: object) -> int:
    """The number of the attempt; runs that failed through no fault of the student were none."""
    earlier = history if isinstance(history, list) else []
    failed = [isinstance(e, dict) and e.get("autograder_error") == "true" for e in earlier]
    return failed.count(False) + 1
