"""Solutions by outside authors, with one mistake each, in one file for each problem.

Their authors did not write grader/solutions/mistakes. A [[stranger]] has a `name`, `says` what its
mistake is, and has its definitions in `source`; or it is another stranger (`of`) with changes, each
a text of it (`old`) and its replacement (`new`). `same_as` names the known mistakes that are the
same as this one.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grader.solutions.edits import Change
from grader.solutions.fragments import Fragment
from grader.solutions.mistakes import changed

HERE = Path(__file__).parent
PROBLEMS = frozenset(path.stem for path in HERE.glob("*.toml"))


@dataclass(frozen=True, kw_only=True)
class Stranger(Fragment):
    """One solution, with the names of the known mistakes that it makes: usually one or none."""

    same_as: tuple[str, ...]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One [[stranger]]."""

    name: str
    says: str
    same_as: tuple[str, ...] = ()
    source: str | None = None
    of: str | None = None
    old: str | None = None
    new: str | None = None
    change: list[Change] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    stranger: list[_Entry]


def load(problem: str) -> list[Stranger]:
    """The solutions of a problem, in the order of its file."""
    text = (HERE / f"{problem}.toml").read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text), _File).stranger
    sources = {entry.name: entry.source for entry in entries if entry.source is not None}
    return [
        Stranger(
            problem=problem,
            name=entry.name,
            summary=entry.says,
            source=_source(entry, sources),
            same_as=entry.same_as,
        )
        for entry in entries
    ]


def complete(problem: str) -> list[str]:
    """The sources that are written out, and not as changes of another stranger."""
    text = (HERE / f"{problem}.toml").read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text), _File).stranger
    return [entry.source for entry in entries if entry.source is not None]


def _source(entry: _Entry, sources: dict[str, str]) -> str:
    if entry.of is None:
        return sources[entry.name]
    changes = entry.change
    if entry.old is not None and entry.new is not None:
        changes = [Change(entry.old, entry.new)]
    try:
        return changed(sources[entry.of], tuple(changes))
    except ValueError as e:
        raise ValueError(f"{entry.name}: {e}") from None
