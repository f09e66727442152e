"""Known mistakes: each says what it is, and the one difference that makes a right program wrong.

A problem's mistakes are in mistakes/<problem>.toml, beside the reference:

    [[mistake]]
    name = "eps_inside_root"
    says = "Epsilon stands inside the square root."
    hint = "is ε added after the root is taken, as in √v̂ + ε?"
    old = "(v_hat.sqrt() + eps)"
    new = "(v_hat + eps).sqrt()"

`old` occurs exactly once in the reference module, and `new` takes its place. Both are written at the left margin: their lines
after the first are indented as the line of the reference in which `old` begins. A mistake with several changes has a table
[[mistake.change]] with `old` and `new` for each.

Some mistakes are made in a plainer program than the reference. `[base.NAME]` holds the definitions of such a program as
`source`, and `base = "NAME"` in a mistake says that its changes are changes of this base. A base is a right solution, which
`grader validate` proves. A mistake that is another program altogether has its definitions as `source`, without changes.

    says      what the mistake is, in one line       hint     what a student who made it should be told
    devices   ["cpu"], ["cuda"] or both: where tests have to notice it; by default on a CPU, and for a CUDA problem on both
    price     why it costs more than 40 % of its problem
    most      how many points such a program may have
"""

import itertools
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from grader.errors import CourseFault
from grader.solutions.fragments import Fragment, Solution, replaced

SHOWN = 60  # characters of a text in an error

T = TypeVar("T")


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text of the program that is changed, and what takes its place."""

    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Mistake(Solution):
    """One wrong solution.

    Attributes:
        says: What the mistake is.
        changes: Changes of the source, or of the reference where there is no source; none where the source is all.
        source: Definitions that take the place of the reference's: those of its base, or its own.
        base: The name of its base; None for the reference.
        price: Why it costs more than 40 % of its problem; None where it does not.
        most: How many points such a program may have; None where nothing is said.
    """

    says: str
    changes: tuple[Change, ...] = ()
    source: str | None = None
    base: str | None = None
    price: str | None = None
    most: float | None = None

    def applied_to(self, reference: str) -> str:
        """The source of the whole module with this mistake in it.

        Raises:
            CourseFault: What it changes is not in the module, or more than once.
        """
        try:
            if self.source is None:
                return changed(reference, self.changes)
            return replaced(reference, changed(self.source, self.changes))
        except ValueError as e:
            where = (
                f", in base {self.base}"
                if self.base
                else ""
                if self.source
                else ", in the reference"
            )
            raise CourseFault(f"{self.problem}.toml: mistake {self.name}{where}: {e}") from None


def load(folder: Path, problem: str) -> list[Mistake]:
    """The known mistakes of a problem, in the order of its file; none where there is no file.

    Raises:
        CourseFault: The file is not as it has to be.
    """
    return _read(folder, problem)[0]


def bases(folder: Path, problem: str) -> list[Fragment]:
    """The plainer programs that mistakes of a problem are made in.

    Raises:
        CourseFault: The file is not as it has to be.
    """
    return _read(folder, problem)[1]


def changed(program: str, changes: tuple[Change, ...]) -> str:
    """A program with these changes, each of them made in the program as it was.

    Raises:
        ValueError: A text to be changed is not in the program exactly once, or two of them overlap.
    """
    places = sorted((*_place(program, change.old), change.new) for change in changes)
    for (_, end, _), (start, *_) in itertools.pairwise(places):
        if start < end:
            raise ValueError(f"two changes overlap, at {_shown(program[start:end])}")
    for start, end, new in reversed(places):
        program = program[:start] + _indented(new, _indentation(program, start)) + program[end:]
    return program


# --- text ---------------------------------------------------------------------------------------------------------------


def _place(program: str, old: str) -> tuple[int, int]:
    """Where the program has this text: where it starts, and where it ends.

    Raises:
        ValueError: It has the text not exactly once.
    """
    first = old.split("\n")[0]
    found, at = [], program.find(first)
    while at >= 0:
        text = _indented(old, _indentation(program, at))
        if program.startswith(text, at):
            found.append((at, at + len(text)))
        at = program.find(first, at + 1)
    if len(found) != 1:
        raise ValueError(f"expected `old` exactly once, got {_shown(old)} {len(found)} times")
    return found[0]


def _indentation(program: str, at: int) -> str:
    """The spaces that the line at this place begins with."""
    line = program[program.rfind("\n", 0, at) + 1 :].split("\n", 1)[0]
    return line[: len(line) - len(line.lstrip(" "))]


def _indented(text: str, spaces: str) -> str:
    """A text whose lines after the first are indented; empty lines stay empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(spaces + line if line else line for line in rest)])


def _shown(text: str) -> str:
    line = text.replace("\n", "⏎")
    return f"`{line if len(line) <= SHOWN else line[:SHOWN] + '…'}`"


# --- the file -----------------------------------------------------------------------------------------------------------


class _Base(msgspec.Struct, forbid_unknown_fields=True):
    """One [base.NAME]."""

    source: str


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One [[mistake]]."""

    name: str
    says: str
    hint: str | None = None
    devices: list[Literal["cpu", "cuda"]] = []
    price: str | None = None
    most: float | None = None
    base: str | None = None
    old: str | None = None
    new: str | None = None
    change: list[Change] = []
    source: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A file whose entries are yet to be read."""

    mistake: list[dict[str, object]] = []
    base: dict[str, dict[str, object]] = {}


def _read(folder: Path, problem: str) -> tuple[list[Mistake], list[Fragment]]:
    path = folder / f"{problem}.toml"
    if not path.is_file():
        return [], []
    try:
        file = _converted(tomllib.loads(path.read_text(encoding="utf-8")), _File, "")
        sources = {
            name: _converted(table, _Base, f"base {name}: ").source
            for name, table in file.base.items()
        }
        entries = [
            _converted(table, _Entry, _title(table, i)) for i, table in enumerate(file.mistake, 1)
        ]
        mistakes = [_mistake(problem, entry, sources) for entry in entries]
        _check_names(mistakes, sources)
    except (
        ValueError,
        UnicodeDecodeError,
    ) as e:  # what tomllib raises is a ValueError that names the line
        raise CourseFault(f"{path}: {e}") from None
    summary = "A right solution that mistakes are made in."
    return mistakes, [
        Fragment(problem=problem, name=f"base {n}", summary=summary, source=s)
        for n, s in sources.items()
    ]


def _converted(table: object, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as e:
        raise ValueError(f"{where}{e}") from None


def _title(table: dict[str, object], number: int) -> str:
    return f"mistake {table.get('name', f'number {number}')}: "


def _mistake(problem: str, entry: _Entry, sources: dict[str, str]) -> Mistake:
    """An entry as a mistake.

    Raises:
        ValueError: It does not say in exactly one way what is different, or its base is not in the file.
    """
    where = f"mistake {entry.name}: "
    if (entry.old is None) != (entry.new is None):
        raise ValueError(f"{where}expected both `old` and `new`, got one of them")
    single = (
        [Change(entry.old, entry.new)] if entry.old is not None and entry.new is not None else []
    )
    ways = {
        "`old` and `new`": bool(single),
        "[[mistake.change]]": bool(entry.change),
        "`source`": entry.source is not None,
    }
    if sum(ways.values()) != 1:
        got = ", ".join(way for way, is_used in ways.items() if is_used) or "none"
        raise ValueError(f"{where}expected one of {', '.join(ways)}; got {got}")
    if entry.base is not None and entry.source is not None:
        raise ValueError(f"{where}expected `base` or `source`, got both")
    if entry.base is not None and entry.base not in sources:
        known = ", ".join(sources) or "which has none"
        raise ValueError(f"{where}expected a base of this file, {known}; got {entry.base}")
    if not entry.says.strip():
        raise ValueError(f"{where}expected `says` to say what the mistake is, got an empty text")
    return Mistake(
        problem=problem,
        name=entry.name,
        says=entry.says,
        hint=entry.hint,
        devices=tuple(entry.devices),
        price=entry.price,
        most=entry.most,
        changes=(*single, *entry.change),
        base=entry.base,
        source=sources[entry.base] if entry.base is not None else entry.source,
    )


def _check_names(mistakes: list[Mistake], sources: dict[str, str]) -> None:
    """Raise a ValueError if two mistakes share a name, or a base is nobody's."""
    twice = [
        name for name, times in Counter(mistake.name for mistake in mistakes).items() if times > 1
    ]
    if twice:
        raise ValueError(f"mistake {twice[0]}: expected a name of its own, got it twice")
    unused = sources.keys() - {mistake.base for mistake in mistakes}
    if unused:
        raise ValueError(f"base {min(unused)}: expected a mistake that is made in it, got none")
