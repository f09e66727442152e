"""Known mistakes: for each, a description and the one difference that makes the program wrong.

A problem's mistakes are in mistakes/<problem>.toml, next to the reference:

    [[mistake]]
    name = "eps_inside_root"
    says = "Epsilon is inside the square root."
    hint = "is ε added after the root is taken, as in √v̂ + ε?"
    old = "(v_hat.sqrt() + eps)"
    new = "(v_hat + eps).sqrt()"

`old` occurs exactly once in the reference module, and `new` replaces it. Both are written at the
left margin: all lines except the first get the indentation of the reference's line in which `old`
begins. Or both are pasted with the indentation that they have in the reference. A mistake with
several changes has a table [[mistake.change]] with `old` and `new` for each.

Some mistakes are easier to make in a plainer program than the reference. `[base.NAME]` contains the
definitions of such a program as `source`, and `base = "NAME"` applies a mistake's changes to this
base. A base is a correct solution, which `grader validate` checks. A mistake that is a different
program altogether has its definitions as `source`, without changes.

    says      what the mistake is, in one line
    hint      what to tell a student who made it
    devices   ["cpu"], ["cuda"] or both: where tests must detect it;
              by default on a CPU, and for a CUDA problem on both
    price     why it costs more than a third of its problem
    most      the most points that such a program may earn
"""

import itertools
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from grader.base.errors import CourseFault
from grader.solutions.fragments import Fragment, Solution, replaced

SHOWN = 60  # characters of a quoted text in an error
AT_THE_MARGIN = (
    "write it at the left margin, with its later lines indented relative to the line that it "
    "begins in, or paste whole lines with their indentation"
)

T = TypeVar("T")


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text of the program, and its replacement."""

    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Mistake(Solution):
    """One wrong solution.

    Attributes:
        says: What the mistake is.
        changes: Changes to the source, or to the reference if there is no source. Empty if the
            source is complete.
        source: Definitions that replace the reference's: those of its base, or its own.
        base: The name of its base; None if it is based on the reference.
        price: Why it costs more than a third of its problem; None if it does not.
        most: The most points that such a program may earn; None for no such limit.
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
            CourseFault: A text that it changes is not in the module exactly once.
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
    """The known mistakes of a problem, in the order of its file; empty without a file.

    Raises:
        CourseFault: The file is wrong.
    """
    return _read(folder, problem)[0]


def bases(folder: Path, problem: str) -> list[Fragment]:
    """The plainer programs that mistakes of a problem are based on.

    Raises:
        CourseFault: The file is wrong.
    """
    return _read(folder, problem)[1]


def changed(program: str, changes: tuple[Change, ...]) -> str:
    """A program with these changes, all applied to the original program.

    Raises:
        ValueError: A text to be changed is not in the program exactly once, or two of them overlap,
            or only one of a change's texts is indented as in the program.
    """
    places = sorted(_place(program, change) for change in changes)
    for (_, end, _), (start, *_) in itertools.pairwise(places):
        if start < end:
            raise ValueError(f"two changes overlap, at {_shown(program[start:end])}")
    for start, end, new in reversed(places):
        program = program[:start] + new + program[end:]
    return program


# --- text -----------------------------------------------------------------------------------------


def _place(program: str, change: Change) -> tuple[int, int, str]:
    """The start and the end of a change's `old` in the program, and the text that replaces it.

    Raises:
        ValueError: `old` does not occur exactly once, or `new` is not indented like `old`.
    """
    old, new = change.old, change.new
    exact = list(_all(program, old))
    begins_a_line = bool(exact) and program[: exact[0]].endswith("\n")
    at_margin = [
        (at, at + len(text))
        for at in _all(program, old.split("\n")[0])
        if program.startswith(text := _indented(old, _indentation(program, at)), at)
        and not (old.startswith(" ") and begins_a_line)
    ]
    if len(at_margin) == 1:
        ((start, end),) = at_margin
        return start, end, _indented(new, _indentation(program, start))
    if not at_margin and len(exact) == 1:
        return exact[0], exact[0] + len(old), _pasted(new, old)
    times = len(at_margin or exact)
    raise ValueError(
        f"expected `old` exactly once, got {_shown(old)} {times} times"
        + (f"; {AT_THE_MARGIN}" if "\n" in old and not times else "")
    )


def _pasted(new: str, old: str) -> str:
    """The replacement of lines that were pasted as they are in the program.

    Raises:
        ValueError: A line of it begins at the left margin.
    """
    # Lines that were copied from the middle of a line on have no indentation in the first one.
    begun = new.split("\n")[0 if old.startswith(" ") else 1 :]
    if line := next((line for line in begun if line and not line.startswith(" ")), None):
        raise ValueError(
            f"`old` is indented as in the program, and `new` begins at the left margin: "
            f"{_shown(line)}; indent both, or write both at the left margin"
        )
    return new


def _all(program: str, text: str) -> Iterator[int]:
    """Every position of a text in the program."""
    at = program.find(text)
    while at >= 0:
        yield at
        at = program.find(text, at + 1)


def _indentation(program: str, at: int) -> str:
    """The leading spaces of the line at this position."""
    line = program[program.rfind("\n", 0, at) + 1 :].split("\n", 1)[0]
    return line[: len(line) - len(line.lstrip(" "))]


def _indented(text: str, spaces: str) -> str:
    """Indent all lines of a text except the first; empty lines stay empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(spaces + line if line else line for line in rest)])


def _shown(text: str) -> str:
    line = text.replace("\n", "⏎")
    return f"`{line if len(line) <= SHOWN else line[:SHOWN] + '…'}`"


# --- the file -------------------------------------------------------------------------------------


class _Base(msgspec.Struct, forbid_unknown_fields=True):
    """One [base.NAME]."""

    source: str


class _MistakeTable(msgspec.Struct, forbid_unknown_fields=True):
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
    """A file whose entries are not yet converted."""

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
        mistakes = _mistakes(problem, file.mistake, sources)
        _check_names(mistakes, sources)
    # tomllib raises a ValueError that names the line.
    except (ValueError, UnicodeDecodeError) as e:
        raise CourseFault(f"{path}: {e}") from None
    summary = "A correct solution that mistakes are based on."
    return mistakes, [
        Fragment(problem=problem, name=f"base {n}", summary=summary, source=s)
        for n, s in sources.items()
    ]


def _mistakes(
    problem: str, tables: list[dict[str, object]], sources: dict[str, str]
) -> list[Mistake]:
    """Convert all entries of a file.

    Raises:
        ValueError: Some entries are wrong; the text has a line for each of them.
    """
    found, wrong = [], []
    for number, table in enumerate(tables, 1):
        try:
            entry = _converted(table, _MistakeTable, _title(table, number))
            found.append(_mistake(problem, entry, sources))
        except ValueError as e:
            wrong.append(str(e))
    if wrong:
        raise ValueError("\n  ".join(wrong))
    return found


def _converted(table: object, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as e:
        raise ValueError(f"{where}{e}") from None


def _title(table: dict[str, object], number: int) -> str:
    return f"mistake {table.get('name', f'number {number}')}: "


def _mistake(problem: str, entry: _MistakeTable, sources: dict[str, str]) -> Mistake:
    """Convert an entry to a mistake.

    Raises:
        ValueError: It does not define its difference in exactly one way, or its base is not in the
            file.
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
        raise ValueError(f"{where}expected `says` to describe the mistake, got an empty text")
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
    """Raise a ValueError if two mistakes share a name, or no mistake uses a base."""
    twice = [
        name for name, times in Counter(mistake.name for mistake in mistakes).items() if times > 1
    ]
    if twice:
        raise ValueError(f"mistake {twice[0]}: expected a name of its own, got it twice")
    unused = sources.keys() - {mistake.base for mistake in mistakes}
    if unused:
        raise ValueError(f"base {min(unused)}: expected a mistake that is based on it, got none")
