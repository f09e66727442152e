"""What a problem may not be delegated to: found in the source before it runs, and by a tripwire while it runs.

Reading the source names the line. The tripwire finds what a reader of names cannot see: computed names, aliases, source of a
library run again. Neither is a wall: the tripwire shares its process with the code it watches. They make delegation harder
than the exercise, and honest code never meets them.
"""

import ast
import importlib
import importlib.util
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

Place = list[Any]  # [file, line, function, text of the line]; plain data, because it is sent
Violation = dict[str, Any]  # {"name": str, "where": Place | None}
STARTS_A_PROGRAM = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")
MAX_USES = 1000
RUNS_TEXT = ("exec", "eval", "compile", "__import__")


# --- reading the source -------------------------------------------------------------------------------------------------


def inspect(sources: dict[str, bytes], forbidden: dict[str, list[str]]) -> dict[str, Any]:
    """Syntax errors and forbidden uses of every file.

    Runs in a child that has imported nothing of the student's, because a parser can be made to crash as well.

    Args:
        sources: Path to content.
        forbidden: Path to the dotted names that this file may not call, subclass or (with any names) run as text.

    Returns:
        Path to `{"syntax": None | [line, message], "uses": [[name, line, definition], …]}`, where `definition` is the
        top-level function or class around the use, or "".
    """
    return {path: _inspect_one(source, forbidden.get(path, [])) for path, source in sources.items()}


def _inspect_one(source: bytes, forbidden: list[str]) -> dict[str, Any]:
    try:
        tree = ast.parse(source)
    except SyntaxError as e:
        return {"syntax": [e.lineno or 0, e.msg], "uses": []}
    except (ValueError, RecursionError, MemoryError) as e:
        return {"syntax": [0, str(e) or "nested too deep to be read"], "uses": []}
    found = {(name, definition): line for name, line, definition in reversed(list(_uses(tree, forbidden)))} if forbidden else {}
    uses = [[name, line, definition] for (name, definition), line in list(found.items())[:MAX_USES]]
    return {"syntax": None, "uses": uses}


def _uses(tree: ast.Module, forbidden: list[str]) -> Iterator[tuple[str, int, str]]:
    own = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names = {**_imported_names(tree), **{name: f".{name}" for name in own}}  # its own definition hides an import
    for top in tree.body:
        definition = top.name if isinstance(top, (ast.FunctionDef, ast.ClassDef)) else ""
        for node in ast.walk(top):
            targets = [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
            for target in targets:
                name = _method_of_a_tensor(target, forbidden) or _dotted(target, names)
                if any(name == f or name.startswith(f + ".") for f in forbidden) or name in RUNS_TEXT:
                    yield name, target.lineno, definition


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `F` for torch.nn.functional, `AdamW` for torch.optim.AdamW."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _method_of_a_tensor(node: ast.expr, forbidden: list[str]) -> str:
    """`torch.Tensor.backward` for any `….backward` where that is forbidden; "" otherwise."""
    name = f"torch.Tensor.{node.attr}" if isinstance(node, ast.Attribute) else ""
    return name if name in forbidden else ""


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """`torch.nn.Linear` for `nn.Linear` where `nn` was imported from torch; "" for what is no dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


# --- watching it run ----------------------------------------------------------------------------------------------------


class Tripwire:
    """Ends the test where a forbidden name is called: at once, so that nothing can be caught or undone.

    Args:
        forbidden: Dotted names.
        folder: Where the student's files are.
        on_violation: Called with the name and the line that called it; does not return.
    """

    def __init__(self, forbidden: list[str], folder: str, on_violation: Callable[[Violation], NoReturn]) -> None:
        self._folder = folder
        self._on_violation = on_violation
        self._sources: set[str] = set()
        for name in forbidden:
            self._guard(name)
        if forbidden:
            sys.addaudithook(self._audit)

    def _guard(self, name: str) -> None:
        parent, attribute = _resolve(name)
        target = getattr(parent, attribute, None)
        if target is None:
            return  # another version of torch has no such thing
        source = getattr(sys.modules.get(getattr(target, "__module__", "")), "__file__", None)
        if source:
            self._sources |= {os.path.realpath(path) for path in (source, importlib.util.cache_from_source(source))}
        if isinstance(target, type):

            def init(*args: object, **kwargs: object) -> NoReturn:
                self.trip(name)

            target.__init__ = init  # type: ignore[misc]
        else:
            setattr(parent, attribute, _Trap(self, name))

    def trip(self, name: str) -> NoReturn:
        """End the test."""
        self._on_violation({"name": name, "where": student_frame(sys._getframe(), self._folder)})

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Stop text that student's code runs as code, other programs, and reading again the source of what is forbidden."""
        if event in ("exec", "compile"):
            caller = sys._getframe(1)
            if caller.f_code.co_filename.startswith(self._folder):
                self.trip(event)
        elif event in STARTS_A_PROGRAM:
            self.trip(event)
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            path = os.fsdecode(arguments[0])
            if os.path.realpath(path) in self._sources:
                raise PermissionError(f"{path} may not be read in this problem")


class _Trap:
    """Stands in for a forbidden function; any use of it trips."""

    def __init__(self, tripwire: Tripwire, name: str) -> None:
        self._tripwire, self._name = tripwire, name

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        self._tripwire.trip(self._name)

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._tripwire.trip(self._name)


def _resolve(name: str) -> tuple[Any, str]:
    """The object that holds the last part of a dotted name, and that part."""
    first, *middle, last = name.split(".")
    parent: Any = importlib.import_module(first)
    path = first
    for part in middle:
        path += f".{part}"
        parent = sys.modules.get(path) or getattr(parent, part, None)  # torch.optim deletes the names of its modules
    return parent, last


def student_frame(frame: FrameType | None, folder: str) -> Place | None:
    """The innermost frame of the student's code at or below `frame`."""
    while frame and not frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    return place(frame, frame.f_lineno, folder) if frame else None


def student_place(error: BaseException, folder: str) -> Place | None:
    """Where in the student's code an exception came from: the innermost of their frames that it passed."""
    found = None
    traceback = error.__traceback__
    while traceback:
        if traceback.tb_frame.f_code.co_filename.startswith(folder):
            found = place(traceback.tb_frame, traceback.tb_lineno, folder)
        traceback = traceback.tb_next
    return found


def place(frame: FrameType, line: int, folder: str) -> Place:
    """A line of the submission: [file, line, function, text]."""
    file = frame.f_code.co_filename
    text = linecache.getline(file, line).strip()
    return [file.removeprefix(folder).lstrip("/"), line, frame.f_code.co_qualname, text]
