"""Read a class's folder whose names have a form that the user gives, as in `hw1-{id}_{any}.zip`."""

import re
from functools import partial
from typing import Any

from grader.base.errors import UsageError
from grader.classroom.intake.entries import FolderItem, Found, first_notes, moment
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


def compiled(form: str) -> re.Pattern[str]:
    """The form of a name as a pattern.

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
    pieces = FIELD.split(form)
    return re.compile(
        "".join(
            re.escape(piece) if place % 2 == 0 else ".*?" if piece == "any" else f"(?P<{piece}>.+?)"
            for place, piece in enumerate(pieces)
        ),
        re.DOTALL,
    )


def by_pattern(form: str) -> partial[Found]:
    """A reader of names of this form."""
    return partial(_read, compiled(form), form)


def _read(names: re.Pattern[str], form: str, items: list[FolderItem]) -> Found:
    found, notes = [], []
    for item in items:
        match = names.fullmatch(item.name)
        if match is None or item.kind in ("link", "special"):
            notes.append(f"{item.name} is left out: it does not fit {one_line(form, 100)}.")
            continue
        found.append(_record(item, match.groupdict()))
    return found, first_notes(notes)


def _record(item: FolderItem, said: dict[str, Any]) -> HandedIn:
    at, doubt = None, ""
    try:
        at = moment(said.get("time"), item.name)
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
