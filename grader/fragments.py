"""Wrong solutions and correct variants: fragments that replace definitions of a reference module.

A fragment is a Python file in grader/wrong/<problem>/ or grader/variants/<problem>/. Its docstring says in one line what the
mistake, or the other style, is. Further lines of it may say more:

- `hint: …`: what a student who made the mistake should be told.
- `device: cpu`, `cuda` or both: on which devices tests have to notice it; by default on a CPU, and for a CUDA problem on both.
  A variant is right everywhere, or only on the device that it names.
- `price: …`: why the mistake costs more than 40 % of its problem.
- `most: 2.5`: how many points such a program may have.

Each top-level function or class in it takes the place of the reference's definition of that name; whatever else it holds
(imports, helpers) goes before the first of them. So a fragment shows its one difference and nothing else.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Fragment:
    """One file of grader/wrong or grader/variants."""

    problem: str
    name: str
    summary: str
    hint: str | None
    source: str
    devices: tuple[str, ...] = ()
    price: str | None = None
    most: float | None = None

    def applied_to(self, reference: str) -> str:
        """The source of the whole module with this fragment's definitions in it.

        Args:
            reference: Source of the reference module.

        Raises:
            ValueError: The fragment replaces nothing.
        """
        theirs = {node.name: node for node in ast.parse(self.source).body if isinstance(node, Definition)}
        ours = [node for node in ast.parse(reference).body if isinstance(node, Definition) and node.name in theirs]
        if not ours:
            raise ValueError(f"{self.problem}/{self.name}.py replaces no definition of the reference")
        lines = reference.splitlines()
        replaced = {node.name for node in ours}
        for node in reversed(ours):
            lines[_start(node) - 1 : node.end_lineno] = _text(self.source, theirs[node.name]).splitlines()
        lines[_start(ours[0]) - 1 : _start(ours[0]) - 1] = self._rest(replaced)
        return "\n".join(lines) + "\n"

    def is_tried_on(self, device: str, usual: Sequence[str]) -> bool:
        """Whether it is tried on a device: on those that it names, or else on the usual ones."""
        return device in (self.devices or usual)

    def reaches(self, names: list[str], reference: str) -> bool:
        """Whether definitions of these names could run otherwise with this fragment in the module.

        Args:
            names: Definitions of the module.
            reference: Source of the reference module.
        """
        module = ast.parse(reference).body
        given = {ast.unparse(node) for node in module}
        new = [node for node in ast.parse(self.source).body[1:] if ast.unparse(node) not in given]
        if not all(isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign, *Definition.__args__)) for node in new):
            return True  # a statement that could do anything
        changed = {name for node in new for name in _bound(node)}
        definitions = {name: node for node in module for name in _bound(node)}
        waiting, seen = list(names), set(names)
        while waiting:
            node = definitions.get(waiting.pop())
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()
            waiting += used - seen
            seen |= used
        return bool(seen & changed)

    def _rest(self, replaced: set[str]) -> list[str]:
        """Everything but the docstring and the definitions that take another's place."""
        kept: list[str] = []
        for node in ast.parse(self.source).body[1:]:
            if not (isinstance(node, Definition) and node.name in replaced):
                kept += [*_text(self.source, node).splitlines(), "", ""]
        return kept


def load(folder: Path, problem: str = "*") -> list[Fragment]:
    """Every fragment below grader/wrong or grader/variants, or those of one problem, sorted by problem and name.

    Raises:
        ValueError: A file has no docstring, or one that names another device.
    """
    return [_read(path) for path in sorted(folder.glob(f"{problem}/*.py"))]


def _read(path: Path) -> Fragment:
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    if not docstring:
        raise ValueError(f"{path} has no docstring to say what it shows")
    devices = tuple(name.strip() for name in (_said(docstring, "device") or "").split(",") if name.strip())
    if not set(devices) <= {"cpu", "cuda"}:
        raise ValueError(f"{path} says device: {', '.join(devices)}; there are cpu and cuda")
    most = _said(docstring, "most")
    return Fragment(
        problem=path.parent.name,
        name=path.stem,
        summary=docstring.splitlines()[0],
        hint=_said(docstring, "hint"),
        source=source,
        devices=devices,
        price=_said(docstring, "price"),
        most=float(most) if most else None,
    )


def _said(docstring: str, word: str) -> str | None:
    """What the first line `word: …` of a docstring says."""
    lines = [line.removeprefix(f"{word}:").strip() for line in docstring.splitlines() if line.startswith(f"{word}:")]
    return lines[0] if lines else None


def _bound(node: ast.stmt) -> set[str]:
    """The names that a top-level statement binds."""
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _start(node: Definition) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _text(source: str, node: ast.stmt) -> str:
    start = _start(node) if isinstance(node, Definition) else node.lineno
    return "\n".join(source.splitlines()[start - 1 : node.end_lineno])
