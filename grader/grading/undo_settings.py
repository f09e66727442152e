"""Settings of this process that our own solutions may change when a probe calls them here."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from typing import Any

Setting = tuple[Callable[[], Any], Callable[[Any], object]]  # reads it, and sets it


def _settings() -> list[Setting]:
    """The settings of Python and of the libraries that this process has imported."""
    return [
        (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        (sys.getrecursionlimit, sys.setrecursionlimit),
        *(_of_numpy() if "numpy" in sys.modules else ()),
        *(_of_torch() if "torch" in sys.modules else ()),
    ]


@cache
def _of_numpy() -> tuple[Setting, ...]:
    import numpy as np

    return ((np.geterr, lambda how: np.seterr(**how)),)


@cache
def _of_torch() -> tuple[Setting, ...]:
    import torch

    return (
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        (torch.get_num_threads, torch.set_num_threads),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        (_autocast_nesting, _set_autocast_nesting),
        (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
        *(
            (partial(get, device), partial(put, device))
            for device in ("cpu", "cuda")
            for get, put in (
                (torch.is_autocast_enabled, torch.set_autocast_enabled),
                (torch.get_autocast_dtype, torch.set_autocast_dtype),
            )
        ),
        (_dispatch_modes, _exit_modes),
    )


def _autocast_nesting() -> int:
    """How many autocast blocks this thread is in; torch keeps its cache until it is in none."""
    import torch

    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _set_autocast_nesting(depth: int) -> None:
    import torch

    while torch.autocast_increment_nesting() <= depth:
        pass
    while torch.autocast_decrement_nesting() > depth:
        pass
    torch.clear_autocast_cache()


def _dispatch_modes() -> int:
    """How many of torch's dispatch modes are active."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return len(_get_current_dispatch_mode_stack())


def _exit_modes(depth: int) -> None:
    """Exit dispatch modes until only `depth` of them are active."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode

    # If nothing but the stack refers to a mode, torch 2.6 frees it while popping it, and then
    # returns it. This list refers to all of them.
    modes = _get_current_dispatch_mode_stack()
    for _ in modes[depth:]:
        _pop_mode()


@contextmanager
def restored() -> Iterator[None]:
    """At the end of the block, restore these settings and exit the block's torch dispatch modes.

    Otherwise, a wrong solution that leaves autocast on would change what later tests expect, and
    one that never exits its dispatch mode would see every later tensor operation.
    """
    with ExitStack() as stack:  # which restores the others even if one cannot be restored
        for get, put in _settings():
            stack.callback(_restore, get, put, get())
        yield


@contextmanager
def silenced() -> Iterator[None]:
    """Discard what our own solutions print inside the block: it is no output of the grader."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _restore(get: Callable[[], Any], put: Callable[[Any], object], value: object) -> None:
    if get() != value:
        put(value)
