"""What a test has left in its process. Another test may use the process only if this is nothing.

Student code could falsify the comparison, as it could falsify everything in its own process. It
would gain nothing: a test that does not pass in a used process is repeated in a fresh one, and a
wrong value is wrong in any process.
"""

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
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as modules
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
)
HOOKS = [name for name in vars(modules) if name.startswith("_global_") and name.endswith("hooks")]
PAUSES = (0.0002, 0.001, 0.005)  # seconds
AUTOCAST_DEVICES = ("cpu", "cuda")  # the devices that autocast is read for


def surroundings() -> dict[str, Any]:
    """What a result depends on in this process, apart from the student's own modules."""
    return {
        "processes": _processes(),
        "threads": (threading.active_count(), len(os.listdir("/proc/self/task"))),
        "descriptors": os.listdir("/proc/self/fd"),
        "environment": dict(os.environ),
        "import path": list(sys.path),
        "signals": (
            [signal.getsignal(number) for number in signal.valid_signals()],
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
        "numpy": (np.geterr(), np.geterrcall()),
        "torch": _of_torch(),
    }


def _processes() -> list[str]:
    """The other processes of the box, or without a box this process's own children."""
    if os.getppid() == 1:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    try:
        return [str(os.waitpid(-1, os.WNOHANG))]
    except ChildProcessError:
        return []


def _of_torch() -> tuple[Any, ...]:
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
        [len(getattr(modules, name)) for name in HOOKS],
    )


def changed(before: dict[str, Any]) -> list[str]:
    """The names of what differs from `before`.

    A thread takes a moment to end, and objects in a cycle may hold an open file until they are
    collected, so a difference is looked at again.
    """
    now = surroundings()
    for pause in PAUSES:
        if now == before:
            break
        gc.collect()
        time.sleep(pause)
        now = surroundings()
    return [name for name in before if before[name] != now[name]]


def empty(folder: str, *, keep: str) -> bool:
    """Remove everything in a folder but `keep`; return False if something cannot be removed."""
    left = [entry for entry in os.scandir(folder) if entry.path != keep]
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(entry)
    return not left or [entry.path for entry in os.scandir(folder)] == [keep]
