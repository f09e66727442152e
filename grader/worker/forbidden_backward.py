"""Detect a backward pass of torch inside a function that is to be written by hand.

A process imports this module once it has imported torch, and before it forgets the worker's code.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from grader.worker import forbidden_at_runtime
from grader.worker.forbidden_at_runtime import Tripwire


def teach() -> None:
    """Let the tripwire end a test at a backward pass."""
    forbidden_at_runtime.no_backward_pass = NoBackwardPass


class NoBackwardPass(ExitStack):
    """A context that ends the test if student code runs a backward pass through any call.

    A backward pass has two signs: operators run in a graph task that was not running before, and
    the values that the forward pass saved are read again (even if only a single node of a graph is
    called). Recording a graph without using it is allowed.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        super().__init__()
        self._tripwire = tripwire

    def __enter__(self) -> "NoBackwardPass":
        super().__enter__()
        self._runs = True
        self.callback(setattr, self, "_runs", False)
        self.enter_context(saved_tensors_hooks(lambda x: x, self._unpack))
        self.enter_context(_GraphTasks(self._trip))
        return self

    def _unpack(self, saved: torch.Tensor) -> torch.Tensor:
        if self._runs:
            self._trip()
        return saved

    def _trip(self) -> None:
        """End the test if student code itself started the pass, not a function from a probe."""
        frame: FrameType | None = sys._getframe()
        while frame and not frame.f_code.co_filename.startswith(self._tripwire.folder):
            if frame.f_globals.get("__name__", "").startswith(("tests.probes", "kit.")):
                return
            frame = frame.f_back
        self._tripwire.trip("autograd's backward pass")


class _GraphTasks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls `trip` before an operator that runs in a backward pass started inside this mode."""

    def __init__(self, trip: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._trip = trip
        self._around = torch._C._current_graph_task_id()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch._C._current_graph_task_id() not in (-1, self._around):
            self._trip()
        return func(*args, **(kwargs or {}))
