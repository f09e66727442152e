"""List a class's submissions in one folder, in one of several layouts.

Gradescope's export
    `submission_metadata.yml`, which lists students, time and earlier submissions of each
    `submission_<number>/`.
Downloads
    What other platforms give, such as files with numbers in their names; see `removable/`.
Clones
    Git repositories such as `hw1-ada`. Students can choose the times of their last commits.
Plain
    `<student>.zip`, .tar.gz, .tgz, .py or .ipynb, or a folder, perhaps with the time, as in
    `ada@2026-10-01T22-10-00+0200.zip`. Each archive in a folder without assignment/ is an attempt
    at the folder's time, because the student chooses the names inside it.

Names and metadata are untrusted: this package opens no archive, follows no link, and parses the
metadata without constructing any object that it names.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from grader.base.errors import UsageError
from grader.classroom.class_records import HandedIn
from grader.classroom.intake.folder_items import (
    EXPORT,
    FolderItem,
    Found,
    first_notes,
    items_in,
    order,
    past_moment,
    shown,
)
from grader.classroom.intake.git_clones import are_clones, clones
from grader.classroom.intake.gradescope_download import export
from grader.classroom.intake.plain_folders import DOWNLOADS, plain
from kit.safe_text import one_line

PARTS = ("id", "name", "email", "time", "any")
FIELD = re.compile(r"\{(\w*)\}")


def pattern_of(form: str) -> re.Pattern[str]:
    """The names of this form, each part of which is as short as the text after it allows.

    A name that has the form at all has it in this way, so that no other way has to be tried.

    Raises:
        UsageError: It has an unknown part, has a part twice, or does not say whose a file is.
    """
    what = f"--layout {one_line(form, 100)}"
    parts = FIELD.findall(form)
    if unknown := [part for part in parts if part not in PARTS]:
        known = ", ".join(f"{{{part}}}" for part in PARTS)
        raise UsageError(f"{what}: {{{unknown[0]}}} is unknown; there are {known}")
    named = [part for part in parts if part != "any"]
    if not {"id", "name", "email"} & {*named} or len(named) != len({*named}):
        raise UsageError(f"{what}: expected one of {{id}}, {{name}} and {{email}}, each once")
    first, *others = FIELD.split(form)
    found = re.escape(first)
    for place in range(0, len(others), 2):
        part, text = others[place : place + 2]
        lazy = "?" if others[place + 2 :] else ""
        field = f".*{lazy}" if part == "any" else f"(?P<{part}>.+{lazy})"
        found += f"(?>{field}{re.escape(text)})"
    return re.compile(found, re.DOTALL)


def by_pattern(form: str, items: list[FolderItem]) -> Found:
    pattern = pattern_of(form)
    found, notes = [], []
    for item in items:
        match = pattern.fullmatch(item.name)
        if match is None or item.kind in ("link", "special"):
            notes.append(f"{item.name} is left out: it does not fit {one_line(form, 100)}.")
            continue
        found.append(_record(item, match.groupdict()))
    return Found(found, first_notes(notes))


def _record(item: FolderItem, said: dict[str, str]) -> HandedIn:
    at, doubt = past_moment(said.get("time"), item.name)
    return HandedIn(
        path=item.path,
        key=said.get("id") or said.get("email") or said["name"],
        student_name=said.get("name") or "",
        email=said.get("email") or "",
        submitted_at=at,
        doubt=doubt,
    )


EXPECTED = (
    "expected <student>.zip, <student>.tar.gz, <student>.py, folders <student>/, "
    + "".join(f"the files of a {one.name} download, " for one in DOWNLOADS.values())
    + "or an unpacked Gradescope export"
)


def recognise(folder: Path, form: str = "") -> Found:
    """List the submissions in a class's folder, whose names may have a form; or a UsageError.

    They are sorted by key, time, number and path. A group's submission occurs once per member.
    """
    items = items_in(folder)
    layout = next((read for fits, read in LAYOUTS if fits(items)), plain)
    handed_in, notes = by_pattern(form, items) if form else layout(items)
    if not handed_in:
        expected = f"no name fits --layout {one_line(form, 100)}" if form else EXPECTED
        raise UsageError(f"{shown(folder)} has nothing to grade: {expected}")
    listed = sorted(set(handed_in), key=lambda item: (item.key, *order(item)))
    return Found(listed, [*notes, *_notes_of_the_future(handed_in)])


def _notes_of_the_future(handed_in: list[HandedIn]) -> list[str]:
    """A sentence for each submission that is dated later than now, which may make it count."""
    soon = datetime.now(UTC) + timedelta(minutes=10)  # the clocks of two machines differ
    later = {one.path: one.submitted_at for one in handed_in if one.submitted_at}
    return first_notes(
        [
            f"{shown(path)} is dated {at:%Y-%m-%d %H:%M %Z}, which is in the future: correct the "
            "time if it is wrong; it decides lateness and which attempt counts."
            for path, at in later.items()
            if at > soon
        ]
    )


def _is_export(items: list[FolderItem]) -> bool:
    return any(item.path.name == EXPORT and item.kind == "file" for item in items)


# Whether a folder has a layout, and what reads it; the first that fits counts.
LAYOUTS = (
    (_is_export, export),
    *((one.fits, one.read) for one in DOWNLOADS.values()),
    (are_clones, clones),
)
