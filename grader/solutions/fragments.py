"""Programs that differ from a reference module: the common part of wrong solutions and variants.

This module also loads right solutions in other styles, the fragments in
tests/hidden/<problem>/right.py. Each begins with a comment, `# [its_name] What is particular to its
style.` The comment may have further lines, and `# device: cpu` or `# device: cuda` among them if
the fragment is correct on that device only.

Each top-level function or class in a fragment replaces the reference's definition of the same name.
Anything else in it (imports, helpers) is inserted before the first of them. So a fragment
contains its one difference and nothing else.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from grader.base.errors import CourseFault
from grader.course import courses

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Harmless = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef, ast.ClassDef)
DEVICES = ("cpu", "cuda")
HEADING = re.compile(r"^# \[(\w+)\] (.+\n(?:#.*\n)*)", re.MULTILINE)
DEVICE = re.compile(r"^# device: (.*)\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """One of our own programs, which differs from the reference of its problem."""

    problem: str  # the id of the problem
    name: str  # its name, unique within its kind
    # The devices that it is tried on; empty for the usual devices of its kind.
    devices: tuple[str, ...] = ()
    source: str | None  # definitions that replace the reference's

    def applied_to(self, reference: str) -> str:
        """The source of the whole module with these definitions in it.

        Raises:
            ValueError: They replace nothing.
        """
        try:
            return replaced(reference, self.source or "")
        except ValueError as e:
            raise ValueError(f"{self.problem}/right.py: {self.name} {e}") from None

    def is_tried_on(self, device: str, usual: Sequence[str]) -> bool:
        """Whether it is tried on a device: one that it names, or else one of the usual devices."""
        return device in (self.devices or usual)

    def reaches(self, names: list[str], reference: str) -> bool:
        """Whether definitions with these names could behave differently in this program.

        Args:
            names: Definitions of the module.
            reference: The source of the reference module.
        """
        changed, uses = _changed(self, reference), _uses(reference)
        if changed is None:
            return True
        seen = set(names)
        while more := set[str]().union(*(uses.get(name, ()) for name in seen)) - seen:
            seen |= more
        return bool(seen & changed)


def replaced(reference: str, source: str) -> str:
    """The reference with its definitions replaced by those of a source.

    Raises:
        ValueError: The source replaces no definition.
    """
    given = _parsed(source)
    theirs = {node.name: node for node in given if isinstance(node, Definition)}
    ours = [
        node for node in _parsed(reference) if isinstance(node, Definition) and node.name in theirs
    ]
    if not ours:
        raise ValueError("replaces no definition of the reference")
    lines, their_lines = reference.splitlines(), source.splitlines()
    taken = [theirs[node.name] for node in ours]
    for node in reversed(ours):
        lines[_start(node) - 1 : node.end_lineno] = _lines(their_lines, theirs[node.name])
    rest = [node for node in given if node not in taken and not is_docstring(node)]
    before = _start(ours[0]) - 1
    lines[before:before] = [line for node in rest for line in (*_lines(their_lines, node), "", "")]
    return "\n".join(lines) + "\n"


@lru_cache(64)  # many fragments and mistakes change the same source
def _parsed(source: str) -> list[ast.stmt]:
    return ast.parse(source).body


def load(folder: Path, problem: str = "*") -> list[Fragment]:
    """The fragments of all problems in tests/hidden, or of one, sorted by problem and name.

    Raises:
        CourseFault: A file is not Python, has code before its first heading or a name twice, or
            names an unknown device.
    """
    read = [each for path in sorted(folder.glob(f"{problem}/right.py")) for each in _read(path)]
    return sorted(read, key=lambda fragment: (fragment.problem, fragment.name))


def _read(path: Path) -> Iterator[Fragment]:
    text, seen = courses.text_of(path), set[str]()
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as e:
        raise CourseFault(f"{path} is not Python: {e}") from None
    before, *parts = HEADING.split(text)
    if ast.parse(before).body or not parts:
        raise CourseFault(f"{path}: expected `# [name] its style` before the first solution")
    for name, header, source in zip(*[iter(parts)] * 3, strict=True):
        device = DEVICE.search(header)
        try:
            devices = devices_of(device[1] if device else "")
        except ValueError as e:
            raise CourseFault(f"{path}: {name}: {e}") from None
        if name in seen:
            raise CourseFault(f"{path}: two solutions are called {name}")
        seen.add(name)
        yield Fragment(problem=path.parent.name, name=name, source=source, devices=devices)


def devices_of(text: str) -> tuple[str, ...]:
    """The devices in a text such as "cpu, cuda"; none in an empty text.

    Raises:
        ValueError: One is unknown.
    """
    devices = tuple(name.strip() for name in text.split(",") if name.strip())
    if not set(devices) <= set(DEVICES):
        raise ValueError(f"expected device: {' or '.join(DEVICES)}, got {', '.join(devices)}")
    return devices


@cache
def _changed(solution: Fragment, reference: str) -> frozenset[str] | None:
    """The names that a solution binds otherwise than the reference.

    None if a statement could do anything.
    """
    known = _statements(reference)
    source = solution.applied_to(reference)
    lines = source.splitlines()
    new = [node for node in ast.parse(source).body if _text(lines, node) not in known]
    if not all(isinstance(node, Harmless) for node in new):
        return None
    return frozenset(name for node in new for name in bound(node))


@cache
def _statements(module: str) -> frozenset[str]:
    """The text of each top-level statement."""
    lines = module.splitlines()
    return frozenset(_text(lines, node) for node in ast.parse(module).body)


@cache
def _uses(module: str) -> dict[str, frozenset[str]]:
    """For each name bound by a top-level statement, the names that the statement reads or sets."""
    used = [
        (node, frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name)))
        for node in ast.parse(module).body
    ]
    return {name: names for node, names in used for name in bound(node)}


def bound(node: ast.stmt) -> set[str]:
    """The names that a top-level statement binds."""
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a text or another constant alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _start(node: Definition) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _text(lines: list[str], node: ast.stmt) -> str:
    return "\n".join(_lines(lines, node))


def _lines(lines: list[str], node: ast.stmt) -> list[str]:
    """A statement's own lines, of all lines of its module."""
    start = _start(node) if isinstance(node, Definition) else node.lineno
    return lines[start - 1 : node.end_lineno]


BEGIN = re.compile(r"( *)# BEGIN SOLUTION\((\w+)\)")
END = re.compile(r" *# END SOLUTION")
MARK = re.compile(r"(BEGIN|END) SOLUTION")


def lines_of(reference: str, problem_id: str | None = None) -> dict[int, str]:
    """The lines of a reference that its stub leaves out, by line number.

    Args:
        reference: The source of the reference module.
        problem_id: The problem whose lines are wanted; None for those of all problems.
    """
    found: dict[int, str] = {}
    inside = False
    for number, line in enumerate(reference.splitlines(), 1):
        if MARK.search(line):
            begin = BEGIN.fullmatch(line)
            inside = begin is not None and problem_id in (None, begin[2])
        elif inside:
            found[number] = line
    return found
