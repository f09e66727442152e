"""Find what a test left behind in its process, which another test may use only if it is clean.

Student code could falsify this check, as it could falsify everything in its own process. It would
gain little: a test that fails in a used process is repeated in a fresh one, unless it calls a stub,
and a wrong value fails in any process. Only a test that expects an error, or that compares the
student's code with itself, could pass because of something that was left behind.
"""

import _signal  # type: ignore[import-not-found]
import gc
import locale
import os
import resource
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from types import CellType, FunctionType, ModuleType
from typing import Any

# signal.getsignal also makes an enum member of each result, which takes ten times as long.
handler_of = _signal.getsignal
SIGNALS = sorted(signal.valid_signals())
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITS = [getattr(resource, f"RLIMIT_{of}") for of in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC")]
PAUSES = (0.0002, 0.001, 0.005)  # seconds
ATOMS = (type(None), bool, int, float, complex, str, bytes)
CONTAINERS = (list, tuple, set, frozenset, deque)
EMPTY_CELL = CellType()
NOT_THE_STUDENTS = ("__builtins__", "__warningregistry__")  # globals that Python puts in a module
MAX_STATE = 100_000  # how many objects of a module are compared
AUTOCAST_DEVICES = ("cpu", "cuda")  # the devices whose autocast settings are compared


def surroundings() -> dict[str, Any]:
    """The state of this process that a result may depend on, except the student's own modules."""
    return {
        "processes": _has_company(),
        # The folder has two links of its own, and one for each thread.
        "threads": (threading.active_count(), os.stat("/proc/self/task").st_nlink),
        "descriptors": os.listdir("/proc/self/fd"),
        "environment": os.environ._data.copy(),  # type: ignore[attr-defined]  # not decoded
        "import path": list(sys.path),
        "signals": (
            [handler_of(number) for number in SIGNALS],
            signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            [signal.getitimer(timer) for timer in TIMERS],
        ),
        "limits": [resource.getrlimit(which) for which in LIMITS],
        "locale": locale.setlocale(locale.LC_ALL),
        "python": (
            sys.getrecursionlimit(),
            sys.gettrace(),
            sys.getprofile(),
            (sys.stdin, sys.stdout, sys.stderr),
            (sys.excepthook, sys.unraisablehook, threading.excepthook),
        ),
        "garbage collector": (
            gc.isenabled(),
            gc.get_threshold(),
            gc.get_debug(),
            len(gc.callbacks),
        ),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "numpy": _of_numpy(),
        "torch": _of_torch(),
    }


def _has_company() -> bool:
    """Whether the box has more processes or, without a PID namespace, this process has children.

    If it runs under a user id of its own, its children include orphans of processes that it
    started.
    """
    try:
        if os.getppid() == 1:
            os.kill(-1, 0)  # sends nothing; finds every process except process 1 and this one
        else:
            os.waitpid(-1, os.WNOHANG)
        return True
    except (ProcessLookupError, ChildProcessError):
        return False


def _of_numpy() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    return (numpy.geterr(), numpy.geterrcall()) if numpy else ()


def _of_torch() -> tuple[Any, ...]:
    if "torch" not in sys.modules:
        return ()
    import torch
    from torch.nn.modules import module
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_anomaly_enabled(),
        (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        ),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        [
            (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in AUTOCAST_DEVICES
        ],
        torch.is_autocast_cache_enabled(),
        len(_get_current_dispatch_mode_stack()),
        len(_get_current_function_mode_stack()),  # type: ignore[no-untyped-call]
        [len(getattr(module, name)) for name in _global_hooks()],
    )


@cache
def _global_hooks() -> list[str]:
    """The names of what torch.nn keeps its global hooks in."""
    from torch.nn.modules import module

    return [n for n in vars(module) if n.startswith("_global_") and n.endswith("hooks")]


def changed(before: dict[str, Any]) -> list[str]:
    """The names of the entries that differ from `before`.

    A thread takes a moment to end, and objects in a cycle may hold an open file until they are
    collected, so a difference is checked again a little later.
    """
    now = surroundings()
    for pause in PAUSES:
        if now == before:
            break
        gc.collect()
        time.sleep(pause)
        now = surroundings()
    return [name for name in before if before[name] != now[name]]


def changed_modules(imported: dict[ModuleType, list[object]]) -> list[str]:
    """The names of the student's modules whose state has changed since their import.

    For example, a counter that is kept on a class could make a later test pass, if that test
    compares the student's code with itself.
    """
    return [module.__name__ for module, before in imported.items() if not _same(module, before)]


def _same(module: ModuleType, before: list[object]) -> bool:
    now = state(module)
    return len(now) == len(before) and all(
        one is other or (type(one) in ATOMS and type(one) is type(other) and one == other)
        for one, other in zip(now, before, strict=True)
    )


def state(module: ModuleType) -> list[object]:
    """What a module's code can change: its globals and their contents, in a fixed order.

    The contents of other modules' objects are left out, and so are functools caches.
    """
    found: list[object] = []
    waiting = [value for name, value in vars(module).items() if name not in NOT_THE_STUDENTS]
    seen: set[int] = set()
    while waiting and len(found) < MAX_STATE:
        thing = waiting.pop()
        # torch wraps the `step` of an optimizer's class when it is first used.
        while type(thing) is FunctionType and "__wrapped__" in thing.__dict__:
            thing = thing.__dict__["__wrapped__"]
        found.append(thing)
        if type(thing) not in ATOMS and id(thing) not in seen:
            seen.add(id(thing))
            waiting += _inside(thing)
    return found


def _inside(thing: object) -> Iterable[object]:
    """The objects inside an object that the student's code can change.

    Methods that a student's class may override are not called: its `__iter__` might never end.
    """
    if isinstance(thing, FunctionType):
        kept = [c.cell_contents for c in thing.__closure__ or () if c != EMPTY_CELL]
        set_on_it = [
            value
            for name, value in thing.__dict__.items()
            # Without its compiler, torch keeps the function itself there.
            if name != "__dynamo_disable" or not (value is thing or _is_dynamos(value))
        ]
        return [
            *(thing.__defaults__ or ()),
            *(thing.__kwdefaults__ or {}).values(),
            *kept,
            *set_on_it,
        ]
    if isinstance(thing, dict):
        return [*dict.keys(thing), *dict.values(thing)]
    for container in CONTAINERS:
        if isinstance(thing, container):
            return container.__iter__(thing)  # type: ignore
    kind = type(thing)
    torch: Any = sys.modules.get("torch")
    if torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter):
        return [thing._version]  # type: ignore[attr-defined]
    home = thing.__module__ if isinstance(thing, type) else kind.__module__
    if type(home) is str and home.startswith("assignment."):
        return list(getattr(thing, "__dict__", {}).values())
    return ()


def _is_dynamos(value: object) -> bool:
    """Whether torch's compiler made this function.

    At the first use of a method that torch.compile must skip, such as that of a dispatch mode,
    torch keeps a wrapper for it as an attribute of the student's function.
    """
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None or not isinstance(value, FunctionType):
        return False
    return value.__globals__ is vars(dynamo)


def empty(folder: str, *, keep: str) -> bool:
    """Remove everything in a folder except `keep`; return False if something cannot be removed."""
    left = [entry for entry in os.scandir(folder) if entry.path != keep]
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(entry)
    return not left or [entry.path for entry in os.scandir(folder)] == [keep]
