"""Read Canvas' download of an assignment: archives whose names say whose they are."""

import re
from collections import defaultdict

import msgspec

from grader.classroom.intake.entries import FolderItem, Found, notes_of_skipped
from grader.classroom.records import HandedIn
from kit.text import one_line

# A name without "_" comes first, then the mark for lateness, the two ids and the student's own file
# name. The attachment id has to fit into a column of the gradebook.
CANVAS = re.compile(
    r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<user>\d+)_(?P<attachment>\d{1,18})_.*",
    re.ASCII | re.DOTALL,
)


def canvas(items: list[FolderItem]) -> Found:
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
    return found, notes_of_skipped(others, folder="it is not part of a Canvas download")


def _in_doubt_if_several(same: list[HandedIn]) -> list[HandedIn]:
    """Mark archives of one student that share an attachment id: a person must choose one."""
    if len(same) == 1:
        return same
    names = " and ".join(one_line(one.path.name, 100) for one in same[:2])
    doubt = f"{names} have the same attachment id; remove the one that does not count"
    return [msgspec.structs.replace(one, doubt=doubt) for one in same]
