"""Detect a backward pass of torch inside a function that is to be written by hand.

Outside of these functions, backward passes are free: a module may contain a check that runs one.
But no mode and no tensor may see torch's own formulas in it, because code could write them down and
repeat them by hand.

A process imports this module once it has imported torch, and before it forgets the worker's code.
"""

import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from grader.worker import forbidden_at_runtime
from grader.worker.forbidden_at_runtime import Tripwire

A_PASS = "autograd's backward pass"
# Operators that are the whole backward pass of a product, and torch's formulas for one.
WHOLE_PASSES = re.compile(r"(linear|matmul|conv\w*)_backward(_|$)")
PRODUCTS = re.compile(r"(mm|mv|dot|addr|linear|matmul|convolution)backward\d", re.IGNORECASE)


def teach() -> None:
    """Let the tripwire end a test at a backward pass."""
    forbidden_at_runtime.no_backward_pass = NoBackwardPass
    forbidden_at_runtime.watch_backward_passes = _watch


def _watch(tripwire: Tripwire) -> None:
    """Look at each backward pass of this process before it runs.

    torch.compile gives a backward pass to its backends, which may keep it. So here it returns a
    function as it is, which computes the same.
    """
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    variable: Any = torch.autograd.variable
    engine: Any = variable.Variable._execution_engine

    class Engine:
        """Torch's engine, which ends the test at a forbidden pass; no attribute leads to it."""

        def run_backward(self, outputs: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            if name := _forbidden(outputs, gradients):
                _trip(tripwire, name)
            return engine.run_backward(outputs, gradients, *args, **kwargs)

        def queue_callback(self, callback: Any) -> None:
            engine.queue_callback(callback)

        def is_checkpoint_valid(self) -> Any:
            return engine.is_checkpoint_valid()

    variable.Variable._execution_engine = Engine()
    variable.ImperativeEngine = torch._C._ImperativeEngine = Engine  # type: ignore[assignment, misc]


def _forbidden(outputs: Any, gradients: Any) -> str:
    """What is forbidden about a pass that is about to run; "" for nothing.

    A pass inside a function to be written by hand is. So is one that code of the student's could
    write down: one that it traces, or that a mode of its own sees while torch multiplies.
    """
    modes = [mode for mode in _get_current_dispatch_mode_stack() if not _is_of_ours(type(mode))]
    if any(isinstance(mode, _GraphTasks) for mode in modes):
        return A_PASS
    if torch._C._get_tracing_state() or any(map(_sees_operators, [*outputs, *gradients])):
        return f"{A_PASS} in a trace, or on tensors that see its operators"
    if modes and _multiplies(outputs):
        return f"{A_PASS} under a mode that sees its operators"
    return ""


def _sees_operators(tensor: Any) -> bool:
    """Whether a tensor is of a class with a method for operators, as those that torch traces."""
    plain = torch.Tensor.__torch_dispatch__
    return getattr(type(tensor), "__torch_dispatch__", plain) is not plain


def _multiplies(outputs: Any) -> bool:
    """Whether a graph has a product whose backward pass is a formula of torch."""
    # An output is a tensor, or an edge of a graph.
    found = [n for x in outputs if (n := getattr(x, "grad_fn", None) or getattr(x, "node", None))]
    known = {*found}
    for node in found:  # which grows
        new = {each for each, _ in node.next_functions if each is not None} - known
        known |= new
        found += new
    return any(PRODUCTS.search(node.name()) for node in found)


def _is_ours(module: str) -> bool:
    return module.startswith(("tests.probes", "kit."))


def _is_of_ours(kind: type) -> bool:
    """Whether a class is one of ours, and does not only say so."""
    home = vars(sys.modules.get(kind.__module__, object))
    return _is_ours(kind.__module__) and home.get(kind.__name__) is kind


def _trip(tripwire: Tripwire, name: str) -> None:
    """End the test if student code itself started the pass, not a function from a probe."""
    frame: FrameType | None = sys._getframe()
    while frame and not frame.f_code.co_filename.startswith(tripwire.folder):
        if _is_ours(frame.f_globals.get("__name__", "")):
            return
        frame = frame.f_back
    tripwire.trip(name)


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
        _trip(self._tripwire, A_PASS)


class _GraphTasks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls `trip` before an operator of a backward pass that was started inside this mode.

    It also does so before an operator that is one.
    """

    def __init__(self, trip: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._trip = trip
        self._around = torch._C._current_graph_task_id()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_one = WHOLE_PASSES.search(func.overloadpacket.__name__)
        if is_one or torch._C._current_graph_task_id() not in (-1, self._around):
            self._trip()
        return func(*args, **(kwargs or {}))
