"""Read a class's folder whose names have a form that the user gives, as in `hw1-{id}_{any}.zip`."""

import re
from functools import partial

from grader.base.errors import UsageError
from grader.classroom.intake.folder_items import FolderItem, Found, first_notes, past_moment
from grader.classroom.records import HandedIn
from kit.text import one_line

PARTS = {
    "id": "the student's id, as in the roster",
    "name": "the student's name",
    "email": "the student's e-mail address",
    "time": "when it was handed in, such as 2026-10-01T22-10-00Z",
    "any": "anything",
}
FIELD = re.compile(r"\{(\w*)\}")


def pieces_of(form: str) -> list[str]:
    """The form of a name as texts and, at each odd place, parts.

    Raises:
        UsageError: It has an unknown part, has a part twice, or does not say whose a file is.
    """
    what = f"--layout {one_line(form, 100)}"
    parts = FIELD.findall(form)
    if unknown := [part for part in parts if part not in PARTS]:
        known = ", ".join(f"{{{part}}} ({meaning})" for part, meaning in PARTS.items())
        raise UsageError(f"{what}: {{{unknown[0]}}} is unknown; there are {known}")
    named = [part for part in parts if part != "any"]
    if not {"id", "name", "email"} & {*named} or len(named) != len({*named}):
        raise UsageError(f"{what}: expected one of {{id}}, {{name}} and {{email}}, each once")
    return FIELD.split(form)


def parts_of(name: str, pieces: list[str]) -> dict[str, str] | None:
    """The parts of a name that has this form; None if it has another.

    Each part is as short as the text after it allows. A name that has the form at all has it in
    this way, so that no other way has to be tried.
    """
    first, *others = pieces
    found = {}
    start = len(first)
    if not name.startswith(first):
        return None
    for place in range(0, len(others), 2):
        part, text = others[place : place + 2]
        least = start + (part != "any")
        is_last = place + 2 == len(others)
        end = len(name) - len(text) if is_last else name.find(text, least)
        if end < least or not name.endswith(text, end, end + len(text)):
            return None
        found[part] = name[start:end]
        start = end + len(text)
    return found if start == len(name) else None


def by_pattern(form: str) -> partial[Found]:
    """A reader of names of this form."""
    return partial(_read, pieces_of(form), form)


def _read(pieces: list[str], form: str, items: list[FolderItem]) -> Found:
    found, notes = [], []
    for item in items:
        parts = parts_of(item.name, pieces)
        if parts is None or item.kind in ("link", "special"):
            notes.append(f"{item.name} is left out: it does not fit {one_line(form, 100)}.")
            continue
        found.append(_record(item, parts))
    return found, first_notes(notes)


def _record(item: FolderItem, said: dict[str, str]) -> HandedIn:
    at, doubt = None, ""
    try:
        at = past_moment(said.get("time"), item.name)
    except UsageError as e:
        doubt = str(e)
    return HandedIn(
        path=item.path,
        key=said.get("id") or said.get("email") or said["name"],
        student_name=said.get("name") or "",
        email=said.get("email") or "",
        submitted_at=at,
        doubt=doubt,
    )
