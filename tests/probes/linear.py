"""Probes for linear.py: modules are created, run and counted in the student's process."""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class Made(TypedDict):
    """The result of `module`.

    `names`, `trainable` and `state` describe registered parameters and buffers. `weights` are the
    matrices in the module, registered or not.
    """

    names: list[str]
    trainable: list[bool]
    state: list[str]
    weights: list[Tensor]
    output: Any


class Ran(TypedDict):
    """The result of `forward`.

    `has_weights` is whether the module has a matrix for each of the given weights.
    """

    has_weights: bool
    output: Any
    weight_gradients: list[Tensor | None]
    x_gradient: Tensor | None


class Counts(TypedDict):
    all: Any
    trainable: Any


class Used(TypedDict):
    """The result of `used`: the answers, and what the caller's objects are after the calls."""

    dims: list[int]
    x: Tensor
    training: bool
    output: Any
    count: Any


def module(
    student: Any,
    *,
    kind: str,
    args: Sequence[Any],
    x: Tensor | None = None,
    to: torch.dtype | None = None,
    **options: Any,
) -> Made:
    """A new module's parameters and its output for x, after `.to(to)` if `to` is given."""
    made = getattr(student.linear, kind)(*args, **options)
    if to is not None:
        made = made.to(to)
    named = list(made.named_parameters())
    return {
        "names": [name for name, _ in named],
        "trainable": [p.requires_grad for _, p in named],
        "state": list(made.state_dict()),
        "weights": [w.detach().clone() for w in _matrices(made)],
        "output": None if x is None else made(x),
    }


def forward(
    student: Any,
    *,
    kind: str,
    args: Sequence[Any],
    weights: Sequence[Tensor],
    x: Tensor,
    upstream: Tensor | None = None,
) -> Ran:
    """A new module with these weights: its output for x, and the gradients for `upstream`.

    A weight is out × in. It is copied into the module's matrix of that shape or of the transposed
    shape, and into all parameters of the same shape as that matrix. A bias is set to 0.
    """
    made = getattr(student.linear, kind)(*args)
    places = _places(made, weights)
    with torch.no_grad():
        for place, weight in zip(places, weights, strict=True):
            # Weights that are not registered lose their points in another test.
            found = list(made.parameters()) or _matrices(made)
            like_it = [] if place is None else [p for p in found if p.shape == place.shape]
            for matrix in [] if place is None else [place, *like_it]:
                matrix.copy_(weight if matrix.shape == weight.shape else weight.mT)
        for bias in made.parameters():
            if bias.dim() == 1:
                bias.zero_()
    x = x.detach().requires_grad_(upstream is not None)
    output = made(x)
    if upstream is not None and isinstance(output, Tensor) and output.shape == upstream.shape:
        torch.autograd.backward(output, upstream)
    return {
        "has_weights": None not in places,
        "output": output.detach() if isinstance(output, Tensor) else output,
        "weight_gradients": [None if place is None else place.grad for place in places],
        "x_gradient": x.grad,
    }


def pair(student: Any, *, kind: str, args: Sequence[Any]) -> list[list[Tensor]]:
    """The weights of two modules created one after the other."""
    made = [getattr(student.linear, kind)(*args) for _ in range(2)]
    return [[w.detach() for w in _matrices(m)] for m in made]


def used(student: Any, *, dims: list[int], x: Tensor) -> Used:
    """An MLP is made from the caller's list and run, and an embedding's parameters are counted."""
    output = student.linear.MLP(dims)(x)
    module = nn.Embedding(dims[0], dims[1])
    count = student.linear.count_parameters(module)
    training = module.training
    return {"dims": dims, "x": x, "training": training, "output": output, "count": count}


def counts(
    student: Any,
    *,
    parameters: dict[str, list[int]],
    frozen: Sequence[str] = (),
    ties: dict[str, str] | None = None,
    buffers: dict[str, list[int]] | None = None,
    device: str = "cpu",
) -> Counts:
    """count_parameters of a module: of all parameters, and of the trainable ones.

    Args:
        parameters: The shapes of its parameters, whose dotted names make submodules.
        frozen: The names of those without requires_grad.
        ties: Further names, each with the name of the parameter that it stands for.
        buffers: The shapes of its buffers.
        device: Where its parameters are.
    """
    tree = nn.Module()
    for name, shape in parameters.items():
        parameter = nn.Parameter(torch.zeros(shape, device=device), name not in frozen)
        place, own = _place(tree, name)
        place.register_parameter(own, parameter)
    for name, other in (ties or {}).items():
        place, own = _place(tree, name)
        place.register_parameter(own, tree.get_parameter(other))
    for name, shape in (buffers or {}).items():
        place, own = _place(tree, name)
        place.register_buffer(own, torch.zeros(shape))
    return {
        "all": student.linear.count_parameters(tree),
        "trainable": student.linear.count_parameters(tree, trainable_only=True),
    }


def _place(tree: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The submodule that a dotted name leads to, made if it is missing, and the last name."""
    *path, own = name.split(".")
    for step in path:
        if step not in dict(tree.named_children()):
            tree.add_module(step, nn.Module())
        tree = tree.get_submodule(step)
    return tree, own


def _matrices(module: nn.Module) -> list[Tensor]:
    """The parameters with two dimensions, then all other such tensors that the module keeps."""
    found = [*module.parameters(), *module.buffers(), *_held(module, set())]
    return list({id(x): x for x in found if x.dim() == 2}.values())


def _held(module: nn.Module, seen: set[int]) -> Iterator[Tensor]:
    """Tensors in a module's attributes and in lists, and in modules that it keeps in lists."""
    seen.add(id(module))
    for leaf in tree_leaves(vars(module)):
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, nn.Module) and id(leaf) not in seen:
            yield from _held(leaf, seen)


def _places(module: nn.Module, weights: Sequence[Tensor]) -> list[Tensor | None]:
    """For each weight, the module's matrix of its shape or of the transposed shape, or None."""
    matrices = _matrices(module)
    places: list[Tensor | None] = []
    for weight in weights:
        fitting = [
            w for shape in (weight.shape, weight.mT.shape) for w in matrices if w.shape == shape
        ]
        places.append(fitting[0] if fitting else None)
    return places
