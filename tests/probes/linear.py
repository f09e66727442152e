"""Probes for linear.py: modules are created, run and counted in the student's process."""

import math
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

    args: list[Any]
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
    x: Tensor


class Counts(TypedDict):
    """The result of `counts`."""

    all: Any
    all_on_request: Any
    trainable: Any
    all_with_one_more: Any
    modes_are_the_same: bool


def module(
    student: Any,
    *,
    kind: str,
    args: Sequence[Any],
    x: Tensor | None = None,
    to: torch.dtype | None = None,
    device_by_name: bool = True,
    **options: Any,
) -> Made:
    """A new module's parameters and its output for x, after `.to(to)` if `to` is given.

    Its device is given by its name, or as a torch.device.
    """
    if not device_by_name:
        options["device"] = torch.device(options["device"])
    made = getattr(student.linear, kind)(*args, **options)
    if to is not None:
        made = made.to(to)
    named = list(made.named_parameters())
    return {
        "args": list(args),
        "names": [name for name, _ in named],
        "trainable": [p.requires_grad for _, p in named],
        "state": list(made.state_dict()),
        "weights": [w.detach().clone() for w in _matrices(made)],
        "output": None if x is None else made(x.clone()),
    }


def forward(
    student: Any,
    *,
    kind: str,
    args: Sequence[Any],
    weights: Sequence[Tensor],
    x: Tensor,
    upstream: Tensor | None = None,
    dtype: torch.dtype | None = None,
    lists_change: bool = False,
    again: bool = False,
    grad_enabled: bool = True,
    of_data: bool = False,
    frozen: Sequence[int] = (),
) -> Ran:
    """A new module with these weights: its output for x, and the gradients for `upstream`.

    A weight is out × in. It is copied into the module's matrix of that shape or of the transposed
    shape, and into all parameters of the same shape as that matrix. A bias is set to 0.

    Args:
        student: The package.
        kind: The name of the class.
        args: Its arguments.
        weights: The weights.
        x: The input.
        upstream: The output's gradient; None if nothing requires one.
        dtype: The dtype to move the module to.
        lists_change: Whether the lists among the arguments change after the module is made.
        again: Whether the module is in eval mode and has had another input before it got its
            weights, with gradients disabled.
        grad_enabled: Whether gradients are enabled.
        of_data: Whether x requires no gradient in spite of `upstream`.
        frozen: The positions of the weights that require no gradient.
    """
    made = getattr(student.linear, kind)(*args).to(dtype)
    for changed in args if lists_change else ():
        changed[:] = [99, 98, 97, 96, 95]
    if again:
        with torch.no_grad():
            made.eval()(1 - x)
    places = _places(made, weights)
    with torch.no_grad():
        for place, weight in zip(places, weights, strict=True):
            # Weights that are not registered lose their points in another test.
            found = list(made.parameters()) or _matrices(made)
            like_it = [] if place is None else [p for p in found if _fits(p, place)]
            for matrix in [] if place is None else [place, *like_it]:
                matrix.copy_(weight if matrix.shape == weight.shape else weight.mT)
        for bias in made.parameters():
            if bias.dim() == 1:
                bias.zero_()
    for place in (places[i] for i in frozen):
        if place is not None and place.is_leaf:
            place.requires_grad_(False)
    x = x.detach().requires_grad_(upstream is not None and not of_data)
    with torch.set_grad_enabled(grad_enabled):
        output = made(x)
    if (
        isinstance(output, Tensor)
        and upstream is not None
        and output.requires_grad
        and output.shape == upstream.shape
    ):
        torch.autograd.backward(output, upstream)
    return {
        "has_weights": None not in places,
        "output": output.detach() if isinstance(output, Tensor) else output,
        "weight_gradients": [None if place is None else place.grad for place in places],
        "x_gradient": x.grad,
        "x": x.detach(),
    }


def spikes(student: Any, *, kind: str, args: Sequence[Any], modules: int) -> int:
    """How many entries of new modules' first weights equal the largest or the smallest of all.

    Several small weights take less time than a large one.
    """
    found: list[dict[float, int]] = [{}, {}]
    for _ in range(modules):
        weight = _matrices(getattr(student.linear, kind)(*args))[0].detach()
        for counted, extreme in zip(found, weight.aminmax(), strict=True):
            equal = int(torch.count_nonzero(weight == extreme))
            counted[float(extreme)] = counted.get(float(extreme), 0) + equal
    smallest, largest = found
    return largest[max(largest)] + smallest[min(smallest)]


def pair(student: Any, *, kind: str, args: Sequence[Any]) -> list[list[Tensor]]:
    """The weights of two modules created one after the other."""
    made = [getattr(student.linear, kind)(*args) for _ in range(2)]
    return [[w.detach() for w in _matrices(m)] for m in made]


def module_under_defaults(
    student: Any, *, kind: str, args: Sequence[Any], dtype: torch.dtype, device: str
) -> list[Tensor]:
    """The weights of a module created under this default dtype and device."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            made = getattr(student.linear, kind)(*args)
    finally:
        torch.set_default_dtype(before)
    return [w.detach() for w in _matrices(made)]


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


def _fits(parameter: Tensor, place: Tensor) -> bool:
    """Whether a parameter is another one of the same shape."""
    return parameter is not place and parameter.shape == place.shape


class _Tree(nn.Module):
    """A module with parameters and buffers under dotted names.

    A tie gives a parameter a second name. For each `absent` name it registers None as a parameter,
    a buffer and a submodule.
    """

    def __init__(
        self,
        parameters: dict[str, list[int]],
        frozen: Sequence[str],
        ties: dict[str, str],
        buffers: dict[str, list[int]],
        device: str,
        dtype: torch.dtype,
        absent: Sequence[str] = (),
    ) -> None:
        super().__init__()
        memory = torch.zeros(1000, dtype=dtype)  # all parameters are parts of it, if they fit
        for name, shape in parameters.items():
            size = math.prod(shape)
            fits = device == "cpu" and size <= len(memory)
            values = memory[:size].view(shape) if fits else torch.zeros(shape, device=device)
            memory = memory[size:] if fits else memory
            parameter = nn.Parameter(values, requires_grad=name not in frozen)
            self._place(name).register_parameter(name.rpartition(".")[2], parameter)
        for name, other in ties.items():
            self._place(name).register_parameter(name.rpartition(".")[2], self.get_parameter(other))
        for name, shape in buffers.items():
            self._place(name).register_buffer(
                name.rpartition(".")[2], torch.zeros(shape, device=device)
            )
        for name in absent:
            place, own = self._place(name), name.rpartition(".")[2]
            place.register_parameter(own, None)
            place.register_buffer(f"{own}_buffer", None)
            place.register_module(f"{own}_module", None)

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
    dtype: torch.dtype = torch.float32,
    evaluates: bool = False,
    absent: Sequence[str] = (),
) -> Counts:
    """count_parameters of a module with these parameters: of all, and of the trainable ones.

    Parameters on a CPU are separate parts of one storage.
    """
    tree = _Tree(parameters, frozen, ties or {}, buffers or {}, device, dtype, absent)
    tree.train(not evaluates)
    counted: Any = {
        "all": student.linear.count_parameters(tree),
        "all_on_request": student.linear.count_parameters(tree, trainable_only=False),
        "trainable": student.linear.count_parameters(tree, trainable_only=True),
    }
    tree.register_parameter("one_more", nn.Parameter(torch.zeros((), device=device)))
    return {
        "all": counted["all"],
        "all_on_request": counted["all_on_request"],
        "trainable": counted["trainable"],
        "all_with_one_more": student.linear.count_parameters(tree),
        "modes_are_the_same": all(m.training != evaluates for m in tree.modules()),
    }
