"""Probes for optimizers.py. An optimizer cannot leave its process, so each probe does a whole run.

A group is a dict with "members", the numbers of its parameters, and the group's own options. A
group with "joins" is added by add_param_group before the step of that number. Without groups, all
parameters are passed as a generator.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from tests.probes import copied


class Leavings(TypedDict):
    parameters: list[Tensor]
    views: list[Tensor]
    gradients: list[Tensor | None]


class Call(TypedDict):
    seen: list[list[Tensor]]
    grad_enabled: list[bool]
    loss: Tensor
    returned: Any
    parameters: list[Tensor]


class Clipped(TypedDict):
    returned: Any
    gradients: list[Tensor | None]
    views: list[Tensor | None]
    parameters: list[Tensor]


class BytesOfRun(TypedDict):
    """The result of `bytes_of_run`: the counts before the first step and after the last one."""

    before: Any
    after: Any


Gradients = Sequence[Sequence[Tensor | None]]
Groups = Sequence[dict[str, Any]]


class Run(TypedDict):
    """An optimizer's name, parameters, a gradient or None for each in each step, and options."""

    optimizer: str
    parameters: Sequence[Tensor]
    gradients: Gradients
    options: dict[str, Any]


def trajectory(student: Any, *, optimizer: str, **inputs: Any) -> list[list[Tensor]]:
    """The parameters after each step; the inputs are those of `run_steps`."""
    return run_steps(getattr(student.optimizers, optimizer), **inputs)


def run_steps(
    make: Callable[..., torch.optim.Optimizer],
    *,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
    groups: Groups = (),
    rates: Sequence[float] = (),
    views: bool = False,
) -> list[list[Tensor]]:
    """The parameters after each step of an optimizer.

    Args:
        gradients: For each step, one gradient or None per parameter.
        rates: For each step, the learning rate that every group gets before the step.
        views: Whether parameters and gradients are transposed and sliced views.
    """
    leaves = [nn.Parameter(_view(p) if views else p.clone()) for p in parameters]
    optimizer = make(_first_groups(leaves, groups), **options)
    after = []
    for step, row in enumerate(gradients):
        for group in groups:
            if 0 < step == group.get("joins"):
                optimizer.add_param_group(_as_torch(leaves, group))
        for lr in rates[step : step + 1]:
            for group in optimizer.param_groups:
                group["lr"] = lr
        after += _steps(leaves, optimizer, [row], views=views)
    return after


def alone(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
    groups: Groups = (),
) -> list[list[Tensor]]:
    """The parameters after each step if every parameter has its own optimizer.

    Such an optimizer has no groups. It is created when its parameter joins, and it steps only if
    there is a gradient.
    """
    rows = [list(parameters) for _ in gradients]
    for i, p in enumerate(parameters):
        group: dict[str, Any] = next((g for g in groups if i in g["members"]), {"members": [i]})
        leaf = nn.Parameter(p.clone())
        made = getattr(student.optimizers, optimizer)([leaf], **{**options, **_own_options(group)})
        for step, row in enumerate(gradients):
            if row[i] is not None and step >= group.get("joins", 0):
                _steps([leaf], made, [[row[i]]])
            rows[step][i] = leaf.detach().clone()
    return rows


def resumed(student: Any, *, stop: int, **run: Unpack[Run]) -> list[list[Tensor]]:
    """The parameters after each step from `stop` on, taken by a new optimizer.

    The new optimizer loads the first one's state_dict before that.
    """
    leaves, first = _made(student.optimizers, run)
    _steps(leaves, first, run["gradients"][:stop])
    leaves, second = _made(student.optimizers, {**run, "parameters": _values(leaves)})
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    return _steps(leaves, second, run["gradients"][stop:])


def state_elements(student: Any, **run: Unpack[Run]) -> int:
    """The number of elements of all tensors in an optimizer's state after some steps."""
    leaves, made = _made(student.optimizers, run)
    _steps(leaves, made, run["gradients"])
    return _elements(made.state)


def leavings(student: Any, **run: Unpack[Run]) -> Leavings:
    """The parameters after steps, other views of them made before, and the last gradients.

    Each parameter is a transposed view itself.
    """
    leaves, made = _made(student.optimizers, run, views=True)
    views = [p.detach() for p in leaves]
    _steps(leaves, made, run["gradients"], views=True)
    return {
        "parameters": _values(leaves),
        "views": [view.clone() for view in views],
        "gradients": [copied(p.grad) for p in leaves],
    }


def with_closure(
    student: Any, *, optimizer: str, parameters: Sequence[Tensor], options: dict[str, Any]
) -> Call:
    """Take a step with a closure whose loss is the sum of the parameters' squares.

    The first parameter is a group of its own.

    Returns:
        For each call of the closure, the parameters that it saw and whether gradients were enabled;
        the last loss, what step returned, and the parameters after it.
    """
    leaves = [nn.Parameter(p.clone()) for p in parameters]
    groups = [{"params": leaves[:1]}, {"params": leaves[1:]}]
    made = getattr(student.optimizers, optimizer)(groups, **options)
    seen: list[list[Tensor]] = []
    grad_enabled: list[bool] = []
    loss = torch.zeros(())

    def closure() -> Tensor:
        nonlocal loss
        seen.append(_values(leaves))
        grad_enabled.append(torch.is_grad_enabled())
        with torch.enable_grad():
            made.zero_grad()
            loss = torch.stack([p.square().sum() for p in leaves]).sum()
            torch.autograd.backward(loss)
        return loss

    returned = made.step(closure)
    return {
        "seen": seen,
        "grad_enabled": grad_enabled,
        "loss": loss.detach(),
        "returned": returned.detach() if isinstance(returned, Tensor) else returned,
        "parameters": _values(leaves),
    }


def bytes_of_states(student: Any, *, states: Sequence[dict[str, Any]]) -> Any:
    """The student's count for an optimizer whose parameters have these states.

    The parameters are in two groups, one of which has a tensor among its options. The last one has
    no state. The tensors are views of larger storages.
    """
    leaves = [nn.Parameter(torch.ones(20)) for _ in range(len(states) + 1)]
    groups: list[dict[str, Any]] = [
        {"params": leaves[:1], "table": torch.zeros(30)},
        {"params": leaves[1:]},
    ]
    optimizer = torch.optim.Optimizer(groups, {"table": None})
    for p, state in zip(leaves, states, strict=False):
        optimizer.state[p] = {k: _view(x) if torch.is_tensor(x) else x for k, x in state.items()}
    return student.optimizers.optimizer_state_bytes(optimizer)


def bytes_of_run(student: Any, **run: Unpack[Run]) -> BytesOfRun:
    """The student's count for one of torch's optimizers, before its first step and after some."""
    leaves, made = _made(torch.optim, run)
    before = student.optimizers.optimizer_state_bytes(made)
    _steps(leaves, made, run["gradients"])
    return {"before": before, "after": student.optimizers.optimizer_state_bytes(made)}


def clipped(
    student: Any,
    *,
    gradients: Sequence[Tensor | None],
    max_l2_norm: float,
    options: dict[str, Any],
    views: bool = False,
    passed_as: str = "a list",
) -> Clipped:
    """The result of clip_gradient_norm, and what it leaves.

    Args:
        gradients: One gradient or None per parameter. A parameter is a third as large as its
            gradient, or 1.
        views: Whether each gradient is a transposed and sliced view.
        passed_as: How the parameters are passed, a key of `_ITERABLES`.

    Returns:
        The result, the parameters' gradients after the call, other views of the gradients that were
        made before the call, and the parameters.
    """
    leaves = [nn.Parameter(torch.ones(2) if g is None else g / 3) for g in gradients]
    _set_gradients(leaves, gradients, views=views)
    inside = [None if p.grad is None else p.grad.detach() for p in leaves]
    given = _ITERABLES[passed_as](leaves)
    returned = student.optimizers.clip_gradient_norm(given, max_l2_norm, **options)
    return {
        "returned": returned.detach().clone() if isinstance(returned, Tensor) else returned,
        "gradients": [copied(p.grad) for p in leaves],
        "views": [copied(g) for g in inside],
        "parameters": _values(leaves),
    }


def _made(
    module: Any, run: Run, *, views: bool = False
) -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
    """The parameters of a run, and a new optimizer of this module for them."""
    leaves = [nn.Parameter(_view(p) if views else p.clone()) for p in run["parameters"]]
    return leaves, getattr(module, run["optimizer"])(leaves, **run["options"])


def _steps(
    leaves: Sequence[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    gradients: Gradients,
    *,
    views: bool = False,
) -> list[list[Tensor]]:
    """The parameters after each of these steps."""
    after = []
    for row in gradients:
        _set_gradients(leaves, row, views=views)
        optimizer.step()
        after.append(_values(leaves))
    return after


def _model_of(leaves: Sequence[nn.Parameter]) -> nn.Module:
    model = nn.Module()
    for i, p in enumerate(leaves):
        model.register_parameter(f"p{i}", p)
    return model


_ITERABLES: dict[str, Callable[[list[nn.Parameter]], Any]] = {
    "a list": list,
    "a tuple": tuple,
    "a generator": lambda leaves: (p for p in leaves),
    "model.parameters()": lambda leaves: _model_of(leaves).parameters(),
}


def _view(x: Tensor) -> Tensor:
    """A tensor as a transposed view of every second element of a storage."""
    back = list(range(x.dim()))[::-1]
    return torch.stack([x.permute(back)] * 2, dim=-1)[..., 0].permute(back)


def _first_groups(leaves: Sequence[Tensor], groups: Groups) -> Any:
    if not groups:
        return (p for p in leaves)
    return [_as_torch(leaves, g) for g in groups if not g.get("joins")]


def _as_torch(leaves: Sequence[Tensor], group: dict[str, Any]) -> dict[str, Any]:
    return {"params": [leaves[i] for i in group["members"]], **_own_options(group)}


def _own_options(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in ("members", "joins")}


def _set_gradients(
    leaves: Sequence[Tensor], row: Sequence[Tensor | None], *, views: bool = False
) -> None:
    """Set each gradient, in the last one's buffer if there is one, as with set_to_none=False."""
    for p, gradient in zip(leaves, row, strict=True):
        if gradient is None or p.grad is None:
            p.grad = _view(gradient) if views and gradient is not None else copied(gradient)
        else:
            p.grad.copy_(gradient)


def _values(leaves: Sequence[Tensor]) -> list[Tensor]:
    return [p.detach().clone() for p in leaves]


def _elements(state: Any) -> int:
    """The number of elements of the tensors in a state, at any depth."""
    if isinstance(state, Tensor):
        return state.numel()
    if isinstance(state, dict):
        return _elements(list(state.values()))
    return sum(map(_elements, state)) if isinstance(state, (list, tuple)) else 0
