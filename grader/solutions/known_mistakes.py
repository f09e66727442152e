"""Known mistakes: for each, a description and the one difference that makes the program wrong.

A problem's mistakes are in tests/hidden/<problem>/wrong.edits; wrong_edits.py describes the format.
The `-` lines of an edit occur exactly once in the program, and the `+` lines replace them. Both are
written at the left margin: all lines except the first get the indentation of the program's line in
which the first begins. Or both are pasted with the indentation that they have in the program.

    hint    what to tell a student who made it
    device  cpu, cuda or both: where tests must detect it;
            by default on a CPU, and for a CUDA problem on both
    price   why it costs more than a third of its problem
    most    the most points that such a program may earn
    unread  nobody has read this code, which a student wrote; see mistake_drafts.py

Our own programs run in the grader's process, an unread one in a sandbox only. So `load` leaves it
out, and only `grader validate` tries it.
"""

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from grader.base.errors import CourseFault
from grader.course import courses
from grader.solutions import wrong_edits
from grader.solutions.fragments import Fragment, devices_of, replaced
from grader.solutions.wrong_edits import BadLine, Change, Edit

FILE = "wrong.edits"  # in the folder of a problem
SHOWN = 60  # characters of a quoted text in an error
AT_THE_MARGIN = (
    "write it at the left margin, with its later lines indented relative to the line that it "
    "begins in, or paste whole lines with their indentation"
)
APART = "if they do not follow each other, a `+` between them begins another change"


@dataclass(frozen=True, kw_only=True)
class Mistake(Fragment):
    """One wrong solution."""

    says: str  # what the mistake is
    hint: str | None = None  # what to tell a student who wrote this, if anything
    changes: tuple[Change, ...] = ()  # to the source, or without one to the reference
    source: str | None = None  # definitions that replace the reference's: its own, or its base's
    base: str | None = None  # the name of its base, if it has one
    price: str | None = None  # why it costs more than a third of its problem, if it does
    most: float | None = None  # the most points that such a program may earn
    is_unread: bool = False  # whether nobody has read its code, so that a sandbox must run it
    line: int = field(default=0, compare=False)  # the line of the file in which it begins

    @property
    def where(self) -> str:
        """Its place and its name."""
        return f"{self.problem}/wrong.edits:{self.line}: mistake {self.name}"

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
            program = f"base {self.base}" if self.base else "the reference"
            where = f", in {program}" if self.changes else ""
            raise CourseFault(f"{self.where}{where}: {e}") from None


def load(folder: Path, problem: str, *, unread: bool = False) -> list[Mistake]:
    """The known mistakes of a problem, in the order of its file; empty without a file.

    Args:
        folder: The course's folder of hidden tests.
        problem: The problem's id.
        unread: Whether to load those, too, whose code nobody has read; it must run in a sandbox
            only.

    Raises:
        CourseFault: The file is wrong.
    """
    return [one for one in _read(folder, problem)[0] if unread or not one.is_unread]


def bases(folder: Path, problem: str) -> list[Fragment]:
    """The plainer programs that mistakes of a problem are based on.

    Raises:
        CourseFault: The file is wrong.
    """
    return _read(folder, problem)[1]


def both(first: Mistake, second: Mistake, reference: str) -> str:
    """The source of the whole module with two mistakes in it.

    Raises:
        CourseFault: They change the same lines.
    """
    pairs = ((first, second), (second, first))
    one, other = (b.applied_to(a.applied_to(reference)) for a, b in pairs)
    if one != other:
        raise CourseFault(f"{first.where} and {second.name} change the same lines")
    return one


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


def _place(program: str, change: Change) -> tuple[int, int, str]:
    """The start and the end of a change's `old` in the program, and the text that replaces it."""
    old, new = change.old, change.new
    exact = _all(program, old)
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
    lines = [line.strip() for line in old.split("\n")]
    apart = not times and all(line in program for line in lines)
    raise ValueError(
        f"expected the `-` lines exactly once, got {_shown(old)} {times} times"
        + (f"; {AT_THE_MARGIN}" if len(lines) > 1 and not times else "")
        + (f"; {APART}" if apart else "")
    )


def _pasted(new: str, old: str) -> str:
    """The replacement of lines that were pasted as they are in the program."""
    # Lines that were copied from the middle of a line on have no indentation in the first one.
    begun = new.split("\n")[0 if old.startswith(" ") else 1 :]
    if line := next((line for line in begun if line and not line.startswith(" ")), None):
        raise ValueError(
            "the `-` lines are indented as in the program, and the `+` lines begin at the left "
            f"margin: {_shown(line)}; indent both, or write both at the left margin"
        )
    return new


def _all(program: str, text: str) -> list[int]:
    """Every position of a text in the program."""
    found = [-1]
    while (at := program.find(text, found[-1] + 1)) >= 0:
        found.append(at)
    return found[1:]


def _indentation(program: str, at: int) -> str:
    """The leading spaces of the line at this position."""
    line = program[program.rfind("\n", 0, at) + 1 :]
    return " " * (len(line) - len(line.lstrip(" ")))


def _indented(text: str, spaces: str) -> str:
    """Indent all lines of a text except the first; empty lines stay empty."""
    return re.sub(r"\n(?=[^\n])", "\n" + spaces, text)


def _shown(text: str) -> str:
    line = text.replace("\n", "⏎")
    return f"`{line if len(line) <= SHOWN else line[:SHOWN] + '…'}`"


def _read(folder: Path, problem: str) -> tuple[list[Mistake], list[Fragment]]:
    path = folder / problem / FILE
    if not path.is_file():
        return [], []
    found: list[Edit] = []
    wrong: list[BadLine] = []
    for entry in wrong_edits.entries(courses.text_of(path)):
        if isinstance(entry, BadLine):
            wrong.append(entry)
        else:
            found.append(entry)
    sources = {entry.name: entry.source or "" for entry in found if entry.is_base}
    listed = []
    for entry in found:
        try:
            _check(entry, found, sources)
            if not entry.is_base:
                listed.append(_mistake(problem, entry, sources))
        except ValueError as e:
            wrong.append(BadLine(entry.line, f"{entry.name}: {e}"))
    if wrong:
        lines = sorted(wrong, key=lambda one: one.line)
        raise CourseFault("\n  ".join(f"{path}:{one.line}: {one}" for one in lines))
    return listed, [
        Fragment(problem=problem, name=f"base {name}", source=source)
        for name, source in sources.items()
    ]


def _check(entry: Edit, others: list[Edit], sources: dict[str, str]) -> None:
    """Raise a ValueError if an entry does not fit the other entries of its file."""
    same = [one for one in others if (one.name, one.is_base) == (entry.name, entry.is_base)]
    if same[0] is not entry:
        raise ValueError(f"expected a name of its own, got that of line {same[0].line}")
    if entry.base is not None and entry.base not in sources:
        known = ", ".join(sources) or "which has none"
        raise ValueError(f"expected a base of this file, {known}; got {entry.base}")
    if entry.is_base and not any(one.base == entry.name for one in others):
        raise ValueError("expected a mistake that edits this base, got none")


def _mistake(problem: str, entry: Edit, sources: dict[str, str]) -> Mistake:
    """The mistake of an entry."""
    most = entry.keys.get("most")
    if most is not None and not most.replace(".", "", 1).isdecimal():
        raise ValueError(f"expected `most:` and a number of points, got {most}")
    return Mistake(
        problem=problem,
        name=entry.name,
        says=entry.says,
        hint=entry.keys.get("hint"),
        devices=devices_of(entry.keys.get("device", "")),
        price=entry.keys.get("price"),
        most=None if most is None else float(most),
        changes=entry.changes,
        base=entry.base,
        source=sources[entry.base] if entry.base is not None else entry.source,
        is_unread="unread" in entry.keys,
        line=entry.line,
    )
