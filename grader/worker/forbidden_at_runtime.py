"""Detect at run time when code delegates its work to something that its problem forbids.

kit/forbidden_in_source.py reads the source and reports lines. This module catches what a
search for names cannot find: computed names, aliases, copies of a library's class, functions found
by introspection. Therefore it guards objects instead of names. Each object is guarded at the lowest
level that every call to it must go through:

a Python function   its code object is replaced, so that every reference to it leads to the trap
a class             its methods' code is replaced, which includes inherited and copied methods
a module            all functions and classes that it defines are guarded
an operator         its kernels in torch's dispatcher are replaced, for Python, TorchScript and C++
autograd            no backward pass may run inside a function to be written by hand (`Watched`),
                    and none that code traces may run anywhere (forbidden_backward.py)

The source of a guarded object cannot be read either, because a copy of it would not be guarded
(guarded_sources.py).

This module shares a process with the code that it watches, so it is not a security boundary. It
makes delegation harder than the exercise itself, and honest code never triggers it.
"""

import functools
import importlib
import importlib.util
import linecache
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, ModuleType
from typing import Any, NoReturn

from grader.worker.guarded_sources import GuardedSources

Place = list[Any]  # [file, line, function, text of the line]; plain data, because it is sent
Violation = dict[str, Any]  # {"name": str, "where": Place | None}
STANDARD_LIBRARY = f"{os.path.dirname(os.__file__)}/"
# Modules of the standard library that start programs which their caller did not name.
START_THEIR_OWN = ("platform.py", "uuid.py", "ctypes/util.py")
ATEN = "torch.ops.aten."
FINDS_C_FUNCTIONS = ("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle")
STARTS_A_PROGRAM = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")
# A backward pass in another process or thread would go unnoticed.
FORKS = ("os.fork", "os.forkpty")
STARTS_A_THREAD = (
    "threading.Thread.start",
    "threading._start_new_thread",
    "_thread.start_new_thread",
)
# New kernels for all these dispatch keys together replace an operator on every device. torch.func
# looks up the last key first; the two before it have formulas of their own, which code can ask for.
DISPATCH_KEYS = (
    "CompositeImplicitAutograd", "AutogradCPU", "AutogradCUDA", "CPU", "CUDA", "FuncTorchBatched",
    "FuncTorchBatchedDecomposition", "FuncTorchDynamicLayerFrontMode",
)  # fmt: skip


# What forbidden_backward.py knows of torch; without torch, there are no backward passes.
no_backward_pass: "Callable[[Tripwire], AbstractContextManager[object]]" = nullcontext
watch_backward_passes: "Callable[[Tripwire], object]" = nullcontext


class Tripwire:
    """Ends the test as soon as something forbidden is called, so that the caller cannot hide it.

    Args:
        forbidden: Dotted names of functions, classes, modules and operators.
        by_hand: Definitions in which no backward pass may run, such as "autograd.linear_backward".
        folder: The folder of the student's files.
        on_violation: Called with the name and the calling line; must not return.
    """

    def __init__(
        self,
        forbidden: list[str],
        by_hand: list[str],
        folder: str,
        on_violation: Callable[[Violation], NoReturn],
    ) -> None:
        self.folder = folder
        self._on_violation = on_violation
        self._by_hand = by_hand
        self._sources = GuardedSources()
        self._operators: set[str] = set()
        for name in [*forbidden, *(STARTS_A_THREAD if by_hand else ())]:
            self._guard(name)
        if by_hand:
            watch_backward_passes(self)
        if forbidden or by_hand:
            starts = vars(importlib.import_module("_posixsubprocess"))
            refuse = functools.partial(self.refuse, "subprocess.Popen")
            starts["fork_exec"] = _StartOfAProgram(refuse, starts["fork_exec"])
            self._sources.guard_openers_in_c(lambda: self._library)
            sys.addaudithook(self._audit)

    def trip(self, name: str) -> NoReturn:
        """End the test."""
        self._on_violation({"name": name, "where": student_frame(sys._getframe(), self.folder)})

    def refuse(self, name: str) -> NoReturn:
        """Do not start a process or thread, and end the test if student code starts it.

        Torch starts some by itself, for example to ask for a compiler's version, and its caller
        need not know that.

        Raises:
            PermissionError: A package starts it.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame and _starts_for_its_caller(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(self.folder):
            self.trip(name)
        raise PermissionError(f"{name} is not allowed in this problem")

    def _guard(self, name: str) -> None:
        """Guard what a name refers to.

        If it refers to both a function and a module, like gradcheck, guard both.
        """
        parent, attribute = _resolve(name)
        found = {
            id(thing): thing for thing in (getattr(parent, attribute, None), sys.modules.get(name))
        }
        trap = functools.partial(self.refuse if name in STARTS_A_THREAD else self.trip, name)
        for thing in found.values():
            if thing is None:
                continue  # this version of torch does not have it
            home = (
                thing
                if isinstance(thing, ModuleType)
                else sys.modules.get(getattr(thing, "__module__", None) or "")
            )
            if source := getattr(home, "__file__", None):
                self._sources.add(source, importlib.util.cache_from_source(source))
            for function in _functions_of(thing, home):
                _set_trap(function, trap)
            if isinstance(thing, type):
                if not _is_trapped(vars(thing).get("__init__")):
                    setattr(thing, "__init__", _trap_function(trap))  # noqa: B010 - mypy refuses the plain form
            elif not isinstance(thing, (FunctionType, ModuleType)):
                in_its_kernels = self._guard_operator(attribute, name)
                # Torch itself reads the attributes of its operators.
                if not in_its_kernels or not name.startswith(ATEN):
                    setattr(parent, attribute, _Trap(trap, thing))

    @functools.cached_property
    def _library(self) -> Any:
        """Registers the traps of operators; most problems have none."""
        import torch

        return torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]

    def _guard_operator(self, operator: str, name: str) -> bool:
        """If the name is that of a torch operator, replace the kernels of all its overloads.

        Return whether they are replaced.
        """
        if "torch" not in sys.modules:
            return False
        import torch

        overloads = torch._C._jit_get_operation(f"aten::{operator}")[1] or []
        if operator in self._operators:
            return bool(overloads)
        self._operators.add(operator)

        def kernel(*args: object, **kwargs: object) -> NoReturn:
            self.trip(name)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
            for overload in overloads:
                full = f"{operator}.{overload}" if overload else operator
                for key in DISPATCH_KEYS:
                    self._library.impl(full, kernel, key)
        return bool(overloads)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Stop exec and compile by student code, new programs, and reads of forbidden sources."""
        if event in ("exec", "compile"):
            caller = sys._getframe(1)
            if caller.f_code.co_filename.startswith(self.folder):
                self.trip(event)
        elif event in STARTS_A_PROGRAM or (self._by_hand and event in FORKS):
            self.refuse(event)
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            self._sources.check(arguments[0])
        elif event == "import" and arguments[1] is not None:
            self._sources.check_extension(arguments[1])
        elif event in FINDS_C_FUNCTIONS and not self._is_called_by_a_package():
            raise PermissionError("C functions may not be looked up in this problem")

    def _is_called_by_a_package(self) -> bool:
        """Whether the code that called ctypes is that of a package.

        It may not be the student's, nor the standard library's, which calls what it is given, also
        in a thread where no frame is the student's.
        """
        frame: FrameType | None = sys._getframe(2)
        while frame and frame.f_globals.get("__name__", "").partition(".")[0] == "ctypes":
            frame = frame.f_back
        return frame is not None and not frame.f_code.co_filename.startswith(
            (self.folder, STANDARD_LIBRARY)
        )


class _Trap:
    """Replaces a forbidden function written in C; a call of the replacement ends the test.

    Code that inspects functions, as torch's compiler does, may ask for its name.
    """

    def __init__(self, trap: Callable[[], NoReturn], replaced: object) -> None:
        self._trap, self._is_a_function = trap, isinstance(replaced, BuiltinFunctionType)
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, attribute, getattr(replaced, attribute, None))

    # Without annotations, because TorchScript refuses those that it does not know.
    def __call__(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self._trap()

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__") or self._is_a_function:
            raise AttributeError(attribute)
        self._trap()


class _StartOfAProgram(_Trap):
    """Replaces the C function that `subprocess` and `multiprocessing` start a program with.

    A process that multiprocessing starts anew is refused, and the test goes on: its author has
    called nothing that is forbidden.
    """

    def __call__(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        caller = sys._getframe(1).f_code
        if caller.co_filename.endswith("multiprocessing/util.py"):
            raise PermissionError(
                "here, processes have to be forked: use "
                'multiprocessing.get_context("fork") instead of "spawn" or "forkserver"'
            )
        self._trap()


def _starts_for_its_caller(file: str) -> bool:
    """Whether code of this file starts what its caller asks for: most of the standard library."""
    inside = file.removeprefix(STANDARD_LIBRARY)
    return file == __file__ or not (
        inside == file or inside.startswith(("site-packages/", "dist-packages/", *START_THEIR_OWN))
    )


def _trap_function(trap: Callable[[], NoReturn]) -> Callable[..., NoReturn]:
    def trapped(*args: object, _trap: Callable[[], NoReturn] = trap, **kwargs: object) -> NoReturn:
        _trap()

    return trapped


def _is_trapped(function: Any) -> bool:
    return "_trap" in (getattr(function, "__kwdefaults__", None) or {})


def _set_trap(function: FunctionType, trap: Callable[[], NoReturn]) -> None:
    """Change a function so that calling it through any reference ends the test."""
    if _is_trapped(function):
        return  # it is reported under its first name in problems.toml
    trapped = _trap_function(trap)
    function.__defaults__, function.__kwdefaults__ = None, trapped.__kwdefaults__
    # The new code must have as many free variables as the function has cells.
    function.__code__ = trapped.__code__.replace(co_freevars=function.__code__.co_freevars)


def _functions_of(thing: Any, module: ModuleType | None) -> Iterator[FunctionType]:
    """Yield the Python functions that make up a function, a class or a module, which defines it.

    They include wrapped functions, methods, and functions in small dicts. What the module only
    imports from elsewhere is left out.
    """
    name, file = getattr(module, "__name__", None), getattr(module, "__file__", None)
    waiting, seen = [thing], set()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, FunctionType):
            if found is thing or found.__module__ == name or found.__code__.co_filename == file:
                yield found
                waiting += [getattr(found, "__wrapped__", None), *_contents(found.__closure__)]
        elif isinstance(found, (staticmethod, classmethod)):
            waiting.append(found.__func__)
        elif isinstance(found, property):
            waiting += [found.fget, found.fset]
        elif isinstance(found, (type, ModuleType)):
            if found is thing or (isinstance(found, type) and found.__module__ == name):
                waiting += vars(found).values()
        elif isinstance(found, dict) and len(found) < 100:
            waiting += found.values()


def _contents(cells: tuple[CellType, ...] | None) -> Iterator[Any]:
    for cell in cells or ():
        with suppress(ValueError):  # the cell is empty
            yield cell.cell_contents


class Watched:
    """The student's package, in which functions to be written by hand are watched while they run.

    Probes reach the student's definitions through this object, so it does not matter how a module
    obtains them. For `by_hand`, see `Tripwire`.
    """

    def __init__(self, student: Any, tripwire: Tripwire, by_hand: list[str]) -> None:
        self._student, self._tripwire = student, tripwire
        self._by_hand = {(name.rpartition(".")[0], name.rpartition(".")[2]) for name in by_hand}

    def __getattr__(self, module: str) -> Any:
        found = getattr(self._student, module)
        inside = [f"{home}.{name}" for home, name in self._by_hand if home.startswith(f"{module}.")]
        if inside:  # a package
            below = [name.removeprefix(f"{module}.") for name in inside]
            return Watched(found, self._tripwire, below)
        names = {name for home, name in self._by_hand if home == module}
        return _WatchedModule(found, names, self._watched) if names else found

    def _watched(self, definition: Any) -> Any:
        """A watched function, or a class with watched methods."""
        if not isinstance(definition, type):
            return self._watched_function(definition) if callable(definition) else definition
        own: dict[str, Any] = {
            "__module__": definition.__module__,
            "__qualname__": definition.__qualname__,
        }
        for name in ("forward", "setup_context", "backward", "vjp", "jvp"):
            method = getattr(definition, name, None)
            if callable(method) and method is not getattr(_function_of_torch(), name, None):
                own[name] = staticmethod(self._watched_function(method))
        return type(definition)(definition.__name__, (definition,), own)

    def _watched_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with no_backward_pass(self._tripwire):
                return function(*args, **kwargs)

        return watched


def _function_of_torch() -> Any:
    """The class torch.autograd.Function, if torch is imported."""
    torch = sys.modules.get("torch")
    return torch and torch.autograd.Function


class _WatchedModule:
    def __init__(self, module: ModuleType, names: set[str], watch: Callable[[Any], Any]) -> None:
        self._module, self._names, self._watch = module, names, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return self._watch(found) if name in self._names else found


# --- places in the student's code -----------------------------------------------------------------


def _resolve(name: str) -> tuple[Any, str]:
    """Split a dotted name into the object that holds its last part, and that part.

    Import modules on the way. Nothing holds a module that has no dot in its name, or one that is
    not in the box, so that no code can use it.
    """
    first, *rest = name.split(".")
    try:
        parent: Any = importlib.import_module(first)
    except ImportError:
        return None, name
    if not rest:
        return None, name
    *middle, last = rest
    path = first
    for part in [*middle, last]:
        path += f".{part}"
        if path not in sys.modules and not hasattr(parent, part) and hasattr(parent, "__path__"):
            with suppress(ImportError):
                importlib.import_module(path)
        if part is not last:
            # torch.optim deletes the names of its modules.
            parent = sys.modules.get(path) or getattr(parent, part, None)
    return parent, last


def student_frame(frame: FrameType | None, folder: str) -> Place | None:
    """The innermost frame of the student's code, searching outwards from `frame`."""
    while frame and not frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    return place(frame, frame.f_lineno, folder) if frame else None


def student_place(error: BaseException, folder: str) -> tuple[Place | None, int]:
    """The place in the student's code that an exception came from.

    It is the innermost frame of that code in the traceback; the number of such frames comes with
    it.
    """
    found, frames = None, 0
    traceback = error.__traceback__
    while traceback:
        if traceback.tb_frame.f_code.co_filename.startswith(folder):
            found = place(traceback.tb_frame, traceback.tb_lineno, folder)
            frames += 1
        traceback = traceback.tb_next
    return found, frames


def place(frame: FrameType, line: int, folder: str) -> Place:
    """A line of the submission as [file, line, function, text]."""
    file = frame.f_code.co_filename
    text = linecache.getline(file, line).strip()
    return [file.removeprefix(folder).lstrip("/"), line, frame.f_code.co_qualname, text]
