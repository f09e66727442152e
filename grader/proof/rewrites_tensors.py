"""Rewrite a reference that uses torch; see rewrites.py.

`derived_trials` adds this module to a solution next to `rewrites`, if the course uses torch.
"""

import functools
import math
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Values = dict[str, Any]


def _tensors(args: tuple[Any, ...], kwargs: Values) -> list[Tensor]:
    """The tensors among the arguments, also those inside lists and tuples."""
    parts = [
        part
        for value in [*args, *kwargs.values()]
        for part in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return [part for part in parts if isinstance(part, Tensor)]


def _of_tensor(change: Callable[[Tensor], Tensor]) -> Callable[[tuple[Any, ...], Values], Any]:
    """A function of the first tensor, or of a tensor of zeros if there is none."""
    return lambda args, kwargs: change(next(iter(_tensors(args, kwargs)), torch.zeros(2, 3)))


def _together(
    args: tuple[Any, ...], kwargs: Values, join: Callable[[Tensor, Tensor], Tensor]
) -> Any:
    found = _tensors(args, kwargs)
    return functools.reduce(join, found) if found else None


# As `rewrites.JUNK`, of torch's types.
JUNK: dict[str, Callable[[tuple[Any, ...], Values], object]] = {
    "a dtype": lambda *_: torch.float32,
    "a layer": lambda *_: nn.Flatten(),
    "a tensor of one number": lambda *_: torch.tensor(1.0),
    "a tensor of zeros": lambda *_: torch.zeros(2, 3),
    "an empty tensor": lambda *_: torch.zeros(0),
    "a tensor of NaN": lambda *_: torch.full((2, 3), math.nan),
    "a tensor of int64": lambda *_: torch.arange(4),
    "a tensor of bool": lambda *_: torch.tensor([True, False]),
    "a tensor of float64": lambda *_: torch.ones(3, dtype=torch.float64),
    "a tensor that needs a gradient": lambda *_: torch.ones(2, 3, requires_grad=True),
    "a tensor on meta": lambda *_: torch.ones(2, 3, device="meta"),
    "a sparse tensor": lambda *_: torch.eye(3).to_sparse(),
    "two tensors": lambda *_: (torch.zeros(2), torch.ones(3)),
    "memory that nobody wrote": lambda *_: torch.empty(2, 3),
    "the first tensor as zeros": _of_tensor(lambda x: x * 0),
    "the first tensor as ones": _of_tensor(lambda x: x * 0 + 1),
    "the first tensor negated": _of_tensor(lambda x: -x),
    "the first tensor copied": _of_tensor(lambda x: x.clone()),
    "the first tensor flat": _of_tensor(lambda x: x.reshape(-1)),
    "the first tensor summed": _of_tensor(lambda x: x.sum()),
    "the first tensor detached": _of_tensor(lambda x: x.detach()),
    "tensors multiplied": lambda args, kwargs: _together(args, kwargs, lambda a, b: a * b),
    "tensors added": lambda args, kwargs: _together(args, kwargs, lambda a, b: a + b),
}


def unwritten(rewrites: Any, module: Values, names: Iterable[str]) -> None:
    """Replace the results of the named functions with uninitialized memory.

    Every tensor in a result is replaced. If a named class is a layer, its parameters are replaced
    too.

    Args:
        rewrites: The module rewrites.
    """

    def empty(x: Any) -> Any:
        return torch.empty_like(x) if isinstance(x, Tensor) else x

    rewrites.map_answers(module, names, empty)
    for name in names:
        original = module[name]
        if isinstance(original, type) and issubclass(original, nn.Module):
            setattr(original, "__init__", _then_empty(original.__init__))  # noqa: B010  mypy


def _then_empty(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapped(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        for parameter in self.parameters():
            parameter.data = torch.empty_like(parameter.data)

    return wrapped


def sums_backwards(module: Values, names: Iterable[str]) -> None:
    """Make the named functions, and `forward` of the named layers, sum from end to start."""
    for name in names:
        original = module[name]
        if isinstance(original, types.FunctionType):
            module[name] = _backwards(original)
        elif issubclass(original, nn.Module) and "forward" in vars(original):
            setattr(original, "forward", _backwards(vars(original)["forward"]))  # noqa: B010  mypy


def _backwards(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with _Backwards():  # type: ignore[no-untyped-call]
            return function(*args, **kwargs)

    return wrapped


class _Backwards(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Flips the operands of torch's products and sums, so that terms are added in reverse order."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func in (aten.mm.default, aten.bmm.default):
            a, b = args
            args = (a.flip(-1), b.flip(-2))
        elif func in (aten.mv.default, aten.dot.default):
            a, b = args
            args = (a.flip(-1), b.flip(0))
        elif func is aten.addmm.default:
            args = (args[0], args[1].flip(-1), args[2].flip(-2), *args[3:])
        elif func in (aten.sum.default, aten.sum.dim_IntList) and args[0].dim():
            args = (args[0].flip(list(range(args[0].dim()))), *args[1:])
            answer = func(*args, **(kwargs or {}))
            return answer.flip(list(range(answer.dim()))) if answer.dim() else answer
        return func(*args, **(kwargs or {}))
