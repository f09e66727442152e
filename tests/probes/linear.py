"""Probes for linear.py: modules are made, run and counted beside the student's code."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn


class Made(TypedDict):
    """What `module` returns."""

    args: list[Any]
    names: list[str]
    weights: list[Tensor]
    trainable: list[bool]
    state: list[str]
    output: Any


class Gradients(TypedDict):
    """What `gradients` returns."""

    weights: list[Tensor]
    weight_gradients: list[Tensor | None]
    x_gradient: Tensor | None
    x: Tensor
    output: Any


class Counts(TypedDict):
    """What `counts` returns."""

    all: Any
    trainable: Any


def module(
    student: Any,
    *,
    kind: str,
    args: Sequence[Any],
    x: Tensor | None = None,
    to: torch.dtype | None = None,
    **options: Any,
) -> Made:
    """A new module's parameters and its output for x, after `.to(to)` where that is given."""
    made = getattr(student.linear, kind)(*args, **options)
    if to is not None:
        made = made.to(to)
    named = list(made.named_parameters())
    return {
        "args": list(args),
        "names": [name for name, _ in named],
        "weights": [p.detach().clone() for _, p in named],
        "trainable": [p.requires_grad for _, p in named],
        "state": list(made.state_dict()),
        "output": None if x is None else made(x.clone()),
    }


def pair(student: Any, *, kind: str, args: Sequence[Any]) -> list[list[Tensor]]:
    """The weights of two modules made one after the other."""
    made = [getattr(student.linear, kind)(*args) for _ in range(2)]
    return [[p.detach() for p in m.parameters()] for m in made]


def module_under_defaults(student: Any, *, kind: str, args: Sequence[Any], dtype: torch.dtype, device: str) -> list[Tensor]:
    """The weights of a module made while torch's default dtype and device are these."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            made = getattr(student.linear, kind)(*args)
    finally:
        torch.set_default_dtype(before)
    return [p.detach() for p in made.parameters()]


def gradients(student: Any, *, kind: str, args: Sequence[Any], x: Tensor, upstream: Tensor, dtype: torch.dtype) -> Gradients:
    """Weights, output and gradients of a backward pass of `upstream`, where that fits; x as the forward pass left it."""
    made = getattr(student.linear, kind)(*args, dtype=dtype)
    x = x.clone().requires_grad_()
    output = made(x)
    is_tensor = isinstance(output, Tensor)
    if is_tensor and output.requires_grad and (output.shape, output.dtype) == (upstream.shape, upstream.dtype):
        output.backward(upstream)
    parameters = list(made.parameters())
    return {
        "weights": [p.detach() for p in parameters],
        "weight_gradients": [p.grad for p in parameters],
        "x_gradient": x.grad,
        "x": x.detach(),
        "output": output.detach() if is_tensor else output,
    }


class _Tree(nn.Module):
    """A module with parameters and buffers by dotted names; a tie gives one parameter a second name."""

    def __init__(
        self,
        parameters: dict[str, list[int]],
        frozen: Sequence[str],
        ties: dict[str, str],
        buffers: dict[str, list[int]],
        device: str,
    ) -> None:
        super().__init__()
        for name, shape in parameters.items():
            parameter = nn.Parameter(torch.zeros(shape, device=device), requires_grad=name not in frozen)
            self._place(name).register_parameter(name.rpartition(".")[2], parameter)
        for name, other in ties.items():
            self._place(name).register_parameter(name.rpartition(".")[2], self.get_parameter(other))
        for name, shape in buffers.items():
            self._place(name).register_buffer(name.rpartition(".")[2], torch.zeros(shape, device=device))

    def _place(self, name: str) -> nn.Module:
        place: nn.Module = self
        for step in name.split(".")[:-1]:
            if step not in dict(place.named_children()):
                place.add_module(step, nn.Module())
            place = place.get_submodule(step)
        return place


def counts(
    student: Any,
    *,
    parameters: dict[str, list[int]],
    frozen: Sequence[str] = (),
    ties: dict[str, str] | None = None,
    buffers: dict[str, list[int]] | None = None,
    device: str = "cpu",
) -> Counts:
    """count_parameters of a module with these parameters: of all, and of the trainable ones."""
    tree = _Tree(parameters, frozen, ties or {}, buffers or {}, device)
    return {
        "all": student.linear.count_parameters(tree),
        "trainable": student.linear.count_parameters(tree, trainable_only=True),
    }
