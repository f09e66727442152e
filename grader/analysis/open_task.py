"""The entries of a course's open task: a table for the class, worth no points.

An entry is what a student's own run wrote, and nothing here believes it: the recipe repeats it.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import msgspec

from grader.report.shared_wording import clean
from kit.handing_in import ENTRY

PATH = f"assignment/{ENTRY}"
MOST_BYTES, MOST_NUMBERS, LONGEST_WORD = 10_000, 30, 100
Word = Annotated[str, msgspec.Meta(max_length=LONGEST_WORD)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=10**18)]


class RaceEntry(msgspec.Struct, frozen=True):
    """What an entry says of itself; `flight/race.py` writes it."""

    name: Word
    loss: Annotated[float, msgspec.Meta(ge=0, le=1000)]
    steps: Whole
    flops: Whole
    budget: Whole
    text: Word
    recipe: Annotated[dict[Word, float], msgspec.Meta(max_length=MOST_NUMBERS)]


@dataclass(frozen=True)
class RaceRow:
    """A line of the table: whose entry it is, and what keeps it from being compared."""

    student: str
    name: str
    entry: RaceEntry
    remark: str

    @property
    def options(self) -> str:
        """The recipe as options of the command that repeats it."""
        return " ".join(f"--{clean(name, 20)} {v:g}" for name, v in self.entry.recipe.items())


def read(sources: dict[str, bytes]) -> RaceEntry | None:
    """The entry of a submission, or None if there is none or it cannot be read."""
    content = sources.get(PATH, b"")
    try:
        return msgspec.json.decode(content, type=RaceEntry) if len(content) <= MOST_BYTES else None
    except (msgspec.DecodeError, RecursionError):  # a wrong value is a DecodeError, too
        return None


def table(found: list[tuple[str, RaceEntry]]) -> list[RaceRow]:
    """The entries by loss; those of another text or budget, or above it, come last."""
    usual = Counter((entry.text, entry.budget) for _, entry in found).most_common(1)
    rows = []
    for student, entry in found:
        remark = "" if (entry.text, entry.budget) == usual[0][0] else "another text or budget"
        remark = "spends more than its budget" if entry.flops > entry.budget else remark
        rows.append(RaceRow(student, clean(entry.name, 40), entry, remark))
    return sorted(rows, key=lambda row: (bool(row.remark), row.entry.loss))
