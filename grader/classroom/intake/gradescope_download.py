"""Read Gradescope's export of a class."""

import unicodedata
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from grader.base.errors import UsageError
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


class _Submitter(msgspec.Struct, frozen=True):
    name: str | None = None
    sid: str | int | None = None
    email: str | None = None


class _Exported(msgspec.Struct, frozen=True):
    submitters: list[_Submitter] | None = None
    created_at: str | None = None
    history: Any = None

    @property
    def number(self) -> int:
        """The number of the attempt; runs that failed through no fault of the student were none."""
        earlier = self.history if isinstance(self.history, list) else []
        failed = [isinstance(e, dict) and e.get("autograder_error") == "true" for e in earlier]
        return failed.count(False) + 1


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
    return handed_in, [*first_notes(nameless), *first_notes(absent), *skipped]


def _described(path: Path) -> dict[str, _Exported]:
    try:
        tree = parse(text_of(path))
    except yaml.YAMLError as e:
        problem = one_line(getattr(e, "problem", None) or "it cannot be parsed", 200)
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{shown(path)}{line} is not valid metadata: {problem}") from None
    if not isinstance(tree, dict):
        raise UsageError(f"{shown(path)} describes no submissions; export them again")
    described = {}
    for name, fields in tree.items():
        try:
            described[name] = msgspec.convert(fields, _Exported)
        except msgspec.ValidationError as e:
            raise UsageError(
                f"{shown(path)}: {one_line(name, MAX_NAME)} is not in Gradescope's format: "
                f"{one_line(str(e), 200)}"
            ) from None
    return described


def _of_submitters(
    item: FolderItem, submitters: list[_Submitter], at: datetime | None, number: int | None
) -> Iterator[HandedIn]:
    """One record per student of a submission; if none is named, one with the folder's name."""
    if len(submitters) > MAX_SUBMITTERS:
        raise UsageError(f"{item.name} has more than {MAX_SUBMITTERS} students in its metadata")
    for who in submitters:
        known = (str(who.sid or ""), who.email, who.name)
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
    start = (value or "")[: 4 * MAX_NAME]  # normalizing takes quadratic time
    return " ".join(unicodedata.normalize("NFC", start).split())[:MAX_NAME]


MAX_DEPTH = 100  # of nested lists and mappings
MAX_NODES = 1_000_000  # texts, lists and mappings: 1,000 students with 20 submissions of 50 fields


def parse(text: str) -> object:
    """Build dicts, lists, strings and None from YAML.

    PyYAML's own loaders turn an unquoted 0123 into the number 83, take exponential time to merge
    mappings, and overflow the C stack on deep nesting. PyYAML's event stream has none of these
    problems. An alias counts as all that it stands for, so what reads the result ends soon.

    Raises:
        yaml.YAMLError: The text is not YAML, or uses features that an export does not need.
    """
    root: list[object] = []
    # Each open container, its children, its anchor, and how many nodes came before it.
    stack: list[tuple[object, list[object], str | None, int]] = [(None, root, None, 0)]
    anchors: dict[str | None, tuple[object, int]] = {}  # a value, and its number of nodes
    nodes = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            container, children, anchor, before = stack.pop()
            _close(container, children, event)
            anchors[anchor] = container, nodes - before
        elif isinstance(event, yaml.NodeEvent):
            value, more = _value(event, anchors)
            if (nodes := nodes + more) > MAX_NODES:
                raise _unfit(event, f"it has more than {MAX_NODES:,} values")
            stack[-1][1].append(value)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append((value, [], event.anchor, nodes - 1))
            elif not isinstance(event, yaml.AliasEvent):
                anchors[event.anchor] = value, 1
            if len(stack) > MAX_DEPTH:
                raise _unfit(event, f"it is nested more than {MAX_DEPTH} levels deep")
    return root[0] if len(root) == 1 else None


def _value(event: yaml.Event, anchors: dict[str | None, tuple[object, int]]) -> tuple[object, int]:
    """The value that starts at this event, and its number of nodes; an open container has one."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise _unfit(event, "it refers to an anchor that it does not define before")
        return anchors[event.anchor]
    tag = getattr(event, "tag", None)
    if tag not in (None, "!"):
        raise _unfit(event, f"the tag {tag} is not allowed")
    if isinstance(event, yaml.ScalarEvent):
        null = event.style is None and event.value in ("", "~", "null", "Null", "NULL")
        return (None if null else event.value), 1
    return ({} if isinstance(event, yaml.MappingStartEvent) else []), 1


def _close(container: object, children: list[object], event: yaml.Event) -> None:
    """Fill a list or dict with its collected values; keys are Ruby's symbols, such as `:sid`."""
    if isinstance(container, list):
        container += children
    elif isinstance(container, dict):
        keys = children[::2]
        if not all(isinstance(key, str) for key in keys):
            raise _unfit(event, "a key is not text")
        names = [key.removeprefix(":") for key in keys if isinstance(key, str)]
        container.update(zip(names, children[1::2], strict=True))


def _unfit(event: yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    mark = getattr(event, "start_mark", None)  # typed as either of two classes
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
