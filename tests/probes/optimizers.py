"""Probes for optimizers.py. An optimizer cannot leave its process, so each probe does a whole run.

A group is a dict with "members", the numbers of its parameters, and the group's own options. A
group with "joins" is added by add_param_group before the step of that number. Without groups, all
parameters are passed as a generator.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn


class Leavings(TypedDict):
    """The result of `leavings`."""

    parameters: list[Tensor]
    views: list[Tensor]
    are_leaves: bool
    are_in_groups: bool
    gradients: list[list[Tensor | None]]
    own_elements: list[int]
    returned_nothing: bool


class Calls(TypedDict):
    """The result of `with_closure`."""

    seen: list[list[Tensor]]
    grad_enabled: list[bool]
    gradients: list[list[Tensor | None]]
    gradients_after: list[list[Tensor | None]]
    losses: list[Any]
    returned: list[Any]
    are_the_same: bool
    parameters: list[list[Tensor]]
    enabled_after: list[bool]
    raised: bool
    old: Tensor | None


class Clipped(TypedDict):
    """The result of `clipped`."""

    returned: Any
    first: Any
    gradients: list[Any]
    inside: list[Tensor | None]
    are_the_same: bool
    parameters: list[Tensor]


class Rescaled(TypedDict):
    """The result of `clipped_each` for a call: a part of that of `clipped`.

    `is_unchanged` is whether a list of the parameters is the same list as before.
    """

    returned: Any
    gradients: list[Any]
    is_unchanged: bool


class StateBytes(TypedDict):
    """The result of `bytes_of_states`: a count, and then the number of parameters with a state."""

    bytes: Any
    entries: int


class BytesOfRun(TypedDict):
    """The result of `bytes_of_run`: the counts before the first step and after the last one."""

    before: Any
    after: Any


Gradients = Sequence[Sequence[Tensor | None]]
Groups = Sequence[dict[str, Any]]


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
    schedule: Sequence[dict[str, Any]] = (),
    views: bool = False,
    frozen: Sequence[int] = (),
    set_back: bool = False,
) -> list[list[Tensor]]:
    """The parameters after each step of an optimizer.

    Args:
        make: The optimizer's class.
        parameters: The initial values of the parameters.
        gradients: For each step, one gradient or None per parameter.
        options: Keyword arguments of `make`.
        groups: The parameter groups.
        schedule: For each step, the options that every group gets before the step.
        views: Whether parameters and gradients are views, transposed or expanded, and gradients
            require a gradient.
        frozen: The numbers of the parameters that do not require a gradient, but have one.
        set_back: Whether the parameters get their initial values again before each step.
    """
    leaves = [nn.Parameter(p) for p in (_views(parameters) if views else map(_copy, parameters))]
    for i in frozen:
        leaves[i].requires_grad_(False)
    optimizer = make(_first_groups(leaves, groups), **options)
    after = []
    for step, row in enumerate(gradients):
        for group in groups:
            if 0 < step == group.get("joins"):
                optimizer.add_param_group(_as_torch(leaves, group))
        for options_now in schedule[step : step + 1]:
            for group in optimizer.param_groups:
                group.update(options_now)
        for p, value in zip(leaves, parameters, strict=True) if set_back else ():
            p.data.copy_(value)
        _set_gradients(leaves, row, views=views)
        optimizer.step()
        after.append(_values(leaves))
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
    """The parameters after each step if every parameter has its own optimizer, in float64.

    Such an optimizer has no groups. It is created when its parameter joins, and it steps only if
    there is a gradient.
    """
    rows = [list(parameters) for _ in gradients]
    for i, p in enumerate(parameters):
        group: dict[str, Any] = next((g for g in groups if i in g["members"]), {"members": [i]})
        leaf = nn.Parameter(p.to(torch.float64, copy=True))
        made = getattr(student.optimizers, optimizer)([leaf], **{**options, **_own_options(group)})
        joins = group.get("joins", 0)
        for step, row in enumerate(gradients):
            gradient = row[i]
            if gradient is not None and step >= joins:
                _set_gradients([leaf], [gradient.double()])
                made.step()
            rows[step][i] = leaf.detach().clone()
    return rows


def resumed(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
    stop: int,
    groups: Groups = (),
    used: bool = False,
) -> list[list[Tensor]]:
    """The parameters after each step from `stop` on, taken by a new optimizer.

    The new optimizer is created with default options and loads the first one's state_dict, which
    contains the saved options. If it is `used`, it is created with `options`, and has made a step
    before that.
    """
    make = getattr(student.optimizers, optimizer)
    leaves = [nn.Parameter(p.clone()) for p in parameters]
    first = make(_first_groups(leaves, groups), **options)
    for row in gradients[:stop]:
        _set_gradients(leaves, row)
        first.step()
    saved = copy.deepcopy(first.state_dict())
    leaves = [nn.Parameter(p) for p in _values(leaves)]
    members = [{"members": group["members"]} for group in groups]
    second = make(_first_groups(leaves, members), **(options if used else {}))
    for row in gradients[:1] if used else ():
        before = _values(leaves)
        _set_gradients(leaves, row)
        second.step()
        for p, value in zip(leaves, before, strict=True):
            p.data.copy_(value)
    second.load_state_dict(saved)
    after = []
    for row in gradients[stop:]:
        _set_gradients(leaves, row)
        second.step()
        after.append(_values(leaves))
    return after


def resumed_late(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
    zeros: int,
    stop: int,
) -> list[list[Tensor]]:
    """The same for the last steps alone, after a number of steps whose gradients are zeros."""
    before = [[torch.zeros_like(p) for p in parameters]] * zeros
    after = resumed(
        student,
        optimizer=optimizer,
        parameters=parameters,
        gradients=[*before, *gradients],
        options=options,
        stop=stop,
    )
    return after[zeros - stop :]


def state_elements(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
    groups: Groups = (),
) -> list[int]:
    """For each parameter, the number of elements in its state tensors after some steps."""
    leaves = [nn.Parameter(p.clone()) for p in parameters]
    made = getattr(student.optimizers, optimizer)(_first_groups(leaves, groups), **options)
    for row in gradients:
        _set_gradients(leaves, row)
        made.step()
    return [_elements(_state(made, p)) for p in leaves]


def leavings(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
) -> Leavings:
    """The parameters after some steps, and whether they are still the same leaves.

    Each is a transposed view of a larger storage, and has another view that was created before the
    steps, its gradient, and the number of elements of its own dtype in its state.
    """
    leaves = [nn.Parameter(_views([p])[0]) for p in parameters]
    views = [p.detach() for p in leaves]
    made = getattr(student.optimizers, optimizer)(leaves, **options)
    gradients_after, returned = [], []
    for row in gradients:
        _set_gradients(leaves, row)
        returned.append(made.step())
        gradients_after.append([None if p.grad is None else p.grad.clone() for p in leaves])
    return {
        "parameters": _values(leaves),
        "views": [view.clone() for view in views],
        "are_leaves": all(p.is_leaf and p.requires_grad for p in leaves),
        "are_in_groups": [id(p) for group in made.param_groups for p in group["params"]]
        == [id(p) for p in leaves],
        "gradients": gradients_after,
        "own_elements": [_elements(_state(made, p), p.dtype) for p in leaves],
        "returned_nothing": all(result is None for result in returned),
    }


def with_closure(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    options: dict[str, Any],
    steps: int,
    result: str,
) -> Calls:
    """Take steps with a closure whose loss is the sum of the parameters' squares.

    The first parameter has an old gradient, unless the closure returns "zero"; the others get their
    first one from the closure. The last one is frozen. In the second step the first parameter has
    no gradient.

    Args:
        optimizer: The name of the student's class.
        parameters: The initial values of the parameters, each of which has its own group.
        options: Keyword arguments of the class.
        steps: The number of steps.
        result: What the closure returns: the loss as "a tensor" or "a float", "zero", "nothing" or
            "a dict".
            With "a float", a closure that raises an exception is called first. With "a dict",
            gradients are added to old ones.

    Returns:
        For each call of the closure, the parameters that it saw, whether gradients were enabled,
        the gradients that it left, and its result. For each step, its result, whether that is the
        closure's own object, the parameters and gradients after the step, and whether gradients
        were then enabled. And whether step let the exception pass.
    """
    leaves = [nn.Parameter(p.clone()) for p in parameters]
    has_old_gradient = result != "zero"
    if has_old_gradient:
        leaves[0].grad = torch.ones_like(leaves[0])  # of an earlier backward pass
    leaves[-1].requires_grad_(False)
    made = getattr(student.optimizers, optimizer)([{"params": [p]} for p in leaves], **options)
    facts: Calls = {
        "seen": [],
        "grad_enabled": [],
        "gradients": [],
        "gradients_after": [],
        "losses": [],
        "returned": [],
        "are_the_same": True,
        "parameters": [],
        "enabled_after": [],
        "raised": result != "a float",
        "old": None,
    }
    results: list[Any] = []

    def closure() -> Any:
        if not facts["seen"]:
            facts["old"] = None if leaves[0].grad is None else leaves[0].grad.clone()
        facts["seen"].append(_values(leaves))
        facts["grad_enabled"].append(torch.is_grad_enabled())
        for p in leaves if result != "a dict" else ():
            p.grad = None
        with torch.enable_grad():
            loss = torch.stack([p.square().sum() for p in leaves]).sum()
            torch.autograd.backward(loss)
        leaves[-1].grad = 2 * leaves[-1].detach()
        if len(facts["seen"]) == 2:
            leaves[0].grad = None
        facts["gradients"].append([None if p.grad is None else p.grad.clone() for p in leaves])
        kinds: dict[str, Any] = {"a float": loss.item(), "zero": 0.0, "nothing": None}
        kinds["a dict"] = {"loss": loss.item()}
        results.append(kinds.get(result, loss))
        facts["losses"].append(kinds.get(result, loss.detach().clone()))
        return results[-1]

    def failing() -> Any:
        leaves[1].grad = torch.ones_like(leaves[1])
        raise ArithmeticError

    if result == "a float":
        try:
            made.step(failing)
        except ArithmeticError:
            facts["raised"] = True
    for _ in range(steps):
        returned = made.step(closure=closure) if result == "a dict" else made.step(closure)
        facts["enabled_after"].append(torch.is_grad_enabled())
        facts["are_the_same"] &= bool(results) and returned is results[-1]
        facts["returned"].append(
            returned.detach().clone() if isinstance(returned, Tensor) else returned
        )
        facts["parameters"].append(_values(leaves))
        facts["gradients_after"].append(
            [None if p.grad is None else p.grad.clone() for p in leaves]
        )
    return facts


def bytes_of_states(
    student: Any, *, states: Sequence[dict[str, Any]], odd: bool = False
) -> StateBytes:
    """The student's count for an optimizer whose parameters have these states.

    Several parameters are in two groups, one of which has a tensor among its options. The first
    parameter is frozen, and the last one has no state.

    Args:
        states: The states.
        odd: Whether the first parameter also has tensors of unusual kinds in its state.
    """
    leaves = [nn.Parameter(torch.ones(20), requires_grad=i != 0) for i in range(len(states) + 1)]
    groups: list[dict[str, Any]] = [
        {"params": leaves[:1], "table": torch.zeros(30)},
        {"params": leaves[1:]},
    ]
    optimizer = torch.optim.Optimizer(groups, {"table": None})
    for p, state in zip(leaves, states, strict=False):
        optimizer.state[p] = {**state, **(_odd_state() if odd and p is leaves[0] else {})}
    counted = student.optimizers.optimizer_state_bytes(optimizer)
    return {"bytes": counted, "entries": len(optimizer.state)}


def _odd_state() -> dict[str, Any]:
    return {
        "expanded": torch.zeros(1).expand(3, 7),
        "part": torch.zeros(100)[10:15],
        "transposed": torch.zeros(2, 3, dtype=torch.complex64).T,
        "flags": torch.zeros(6, dtype=torch.bool),
        "empty": torch.zeros(0, 4),
        "elsewhere": torch.empty(2**53 + 1, dtype=torch.uint8, device="meta"),
        "trained": nn.Parameter(torch.zeros(4)),
        "step": torch.zeros(1, 3),
        "column": torch.zeros(3, 1),
        "history": [torch.zeros(9), torch.zeros(9)],
        "nested": {"inner": torch.zeros(9)},
    }


def bytes_of_run(
    student: Any,
    *,
    optimizer: str,
    parameters: Sequence[Tensor],
    gradients: Gradients,
    options: dict[str, Any],
) -> BytesOfRun:
    """The student's count for one of torch's optimizers, before its first step and after some."""
    leaves = [nn.Parameter(p.clone()) for p in parameters]
    made = getattr(torch.optim, optimizer)(leaves, **options)
    before = student.optimizers.optimizer_state_bytes(made)
    for row in gradients:
        _set_gradients(leaves, row)
        made.step()
    after = student.optimizers.optimizer_state_bytes(made)
    return {"before": before, "after": after}


def clipped(student: Any, **inputs: Any) -> Clipped:
    """The result of clip_gradient_norm, and the gradients after the call; see `_clipped`."""
    return _clipped(student, **inputs)[0]


def _clipped(
    student: Any,
    *,
    gradients: Sequence[Tensor | None],
    max_l2_norm: float,
    options: dict[str, Any],
    views: bool = False,
    frozen: bool = False,
    earlier: bool = False,
    passed_as: str = "a list",
) -> tuple[Clipped, bool]:
    """The result of `clipped`, and whether a list of the parameters is the same as before.

    Args:
        student: The package.
        gradients: One gradient or None per parameter. A parameter is a third as large as its
            gradient, or 1.
        max_l2_norm: The second argument of the call.
        options: Keyword arguments.
        views: Whether each gradient is a transposed view of a larger storage.
        frozen: Whether every second parameter requires no gradient, although it has one.
        earlier: Whether the function was called before, when the gradients were twice as large.
        passed_as: How the parameters are passed, a key of `_ITERABLES`.

    Returns:
        The result, that of the earlier call as it is after the last one, the parameters' gradients
        after the call, views of the gradients that were made before the call, whether the
        gradients are the same tensors, and the parameters.
    """
    leaves = [nn.Parameter(torch.ones(2) if g is None else g / 3) for g in gradients]
    for p, g in zip(leaves, gradients, strict=True):
        if g is not None:
            p.grad = _views([g])[0] if views else g.clone()
    for p in leaves[1::2] if frozen else ():
        p.requires_grad_(False)
    held = [p.grad for p in leaves]
    inside = [None if g is None else g.detach() for g in held]
    first: Any = None
    if earlier:
        for g in inside:
            if g is not None:
                g.mul_(2)
        first = student.optimizers.clip_gradient_norm(leaves, max_l2_norm, **options)
        for g, old in zip(inside, gradients, strict=True):
            if g is not None and old is not None:
                g.copy_(old)
    given = _ITERABLES[passed_as](leaves)
    returned = student.optimizers.clip_gradient_norm(given, max_l2_norm, **options)
    got: Clipped = {
        "returned": returned.detach().clone() if isinstance(returned, Tensor) else returned,
        "first": first.detach().clone() if isinstance(first, Tensor) else first,
        "gradients": [None if p.grad is None else p.grad.detach().clone() for p in leaves],
        "inside": [None if g is None else g.clone() for g in inside],
        "are_the_same": all(p.grad is g for p, g in zip(leaves, held, strict=True)),
        "parameters": _values(leaves),
    }
    return got, type(given) is not list or [*map(id, given)] == [*map(id, leaves)]


def clipped_each(student: Any, *, calls: Sequence[dict[str, Any]]) -> list[Rescaled]:
    """The result of `clipped` for each of these inputs, in short."""
    results: list[Rescaled] = []
    for inputs in calls:
        got, is_unchanged = _clipped(student, **inputs)
        returned, gradients = got["returned"], got["gradients"]
        results.append({"returned": returned, "gradients": gradients, "is_unchanged": is_unchanged})
    return results


def _model_of(leaves: Sequence[nn.Parameter]) -> nn.Module:
    model = nn.Module()
    for i, p in enumerate(leaves):
        model.register_parameter(f"p{i}", p)
    return model


class _Again:
    """An iterable that is neither a sequence nor an iterator."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


_ITERABLES: dict[str, Callable[[list[nn.Parameter]], Any]] = {
    "a list": list,
    "a tuple": tuple,
    "a generator": lambda leaves: (p for p in leaves),
    "an iterator": iter,
    "model.parameters()": lambda leaves: _model_of(leaves).parameters(),
    "the values of a dict": lambda leaves: dict(enumerate(leaves)).values(),
    "an iterable object": _Again,
}


def _views(values: Sequence[Tensor]) -> list[Tensor]:
    """Values of one dtype as transposed views of one storage, with a gap before each."""
    storage = values[0].new_zeros(sum(x.numel() + 1 for x in values))
    parts, start = [], 0
    for x in values:
        part = storage[start + 1 : start + 1 + x.numel()].view(x.shape[::-1])
        parts.append(part.permute(list(range(x.dim()))[::-1]).copy_(x))
        start += 1 + x.numel()
    return parts


def _first_groups(leaves: Sequence[Tensor], groups: Groups) -> Any:
    return (
        [_as_torch(leaves, g) for g in groups if not g.get("joins")]
        if groups
        else (p for p in leaves)
    )


def _as_torch(leaves: Sequence[Tensor], group: dict[str, Any]) -> dict[str, Any]:
    return {"params": [leaves[i] for i in group["members"]], **_own_options(group)}


def _own_options(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in ("members", "joins")}


def _set_gradients(
    leaves: Sequence[Tensor], row: Sequence[Tensor | None], *, views: bool = False
) -> None:
    """Set each gradient, in the last one's buffer if there is one, as with set_to_none=False.

    Args:
        leaves: The parameters.
        row: Their gradients.
        views: Whether each gradient is a view, and requires a gradient. It is expanded if all its
            entries are equal.
    """
    for p, gradient in zip(leaves, row, strict=True):
        if gradient is not None and views:
            first = gradient.flatten()[:1]
            is_constant = gradient.numel() > 1 and bool((gradient == first).all())
            view = first.expand(gradient.shape) if is_constant else _views([gradient])[0]
            p.grad = view.detach().requires_grad_()
        elif p.grad is not None and gradient is not None:
            p.grad.copy_(gradient)
        else:
            p.grad = None if gradient is None else gradient.clone()


def _copy(x: Tensor) -> Tensor:
    return x.clone()


def _values(leaves: Sequence[Tensor]) -> list[Tensor]:
    return [p.detach().clone() for p in leaves]


def _state(optimizer: torch.optim.Optimizer, p: Tensor) -> list[Any]:
    """The state of a parameter; empty if it has none."""
    # Compare by `is`: == would compare tensors element by element, also with a key such as id(p),
    # which has p's hash.
    return [state for key, state in optimizer.state.items() if key is p]


def _elements(state: Any, dtype: torch.dtype | None = None) -> int:
    """The number of elements of the tensors in a state, at any depth; only those of one dtype."""
    if isinstance(state, Tensor):
        return state.numel() if dtype in (None, state.dtype) else 0
    if isinstance(state, dict):
        return _elements(list(state.values()), dtype)
    return sum(_elements(x, dtype) for x in state) if isinstance(state, (list, tuple)) else 0
