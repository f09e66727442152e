"""Probes for flop_counting.py: a counter sees only its own process, so the work runs there.

A torch function is given by its path, such as "torch.nn.functional.linear", and looked up here.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Read(TypedDict):
    """A counter's attributes at one moment, with integers of any kind as int."""

    total: Any
    by_op: Any


class Pass(TypedDict):
    """The result of `passes`: the reading of a counter for each pass."""

    forward: Read
    backward: Read


class Escaped(TypedDict):
    escaped: bool
    total: Any
    total_later: Any


class Trace(TypedDict):
    """The traces of a piece of work: tensors, and facts that no tensor shows."""

    tensors: list[Tensor]
    facts: list[bool]


class Traces(TypedDict):
    without: Trace
    with_counter: Trace


# --- flop_formulas


def transformer(student: Any, *, config: dict[str, Any], batch: int, seq: int) -> Any:
    """transformer_forward_flops of the student's own TransformerConfig with these fields."""
    module = student.flop_counting
    return module.transformer_forward_flops(module.TransformerConfig(**config), batch, seq)


# --- flop_counter: what is counted

# The path of a function of torch, its arguments and its keyword arguments.
Call = tuple[str, Sequence[Any], dict[str, Any]]


def counts(student: Any, *, calls: Sequence[Call]) -> list[Read]:
    """A new counter after each of these calls."""
    return [count_together(student, calls=[call]) for call in calls]


def count_together(student: Any, *, calls: Sequence[Call]) -> Read:
    """One counter after all of these calls."""
    with student.flop_counting.FlopCounter() as counter:
        for function, args, options in calls:
            _resolve(function)(*args, **options)
    return _read(counter)


def passes(
    student: Any,
    *,
    function: str,
    args: Sequence[Tensor],
    options: dict[str, Any] | None = None,
    extra: Sequence[Any] = (),
) -> Pass:
    """A counter of a torch function's call, and another of the backward pass of its (first) result.

    Args:
        extra: Further arguments, which are not tensors.
    """
    leaves = [x.clone().requires_grad_() for x in args]
    with student.flop_counting.FlopCounter() as forward:
        result = _resolve(function)(*leaves, *extra, **(options or {}))
    output = result[0] if isinstance(result, tuple) else result
    with student.flop_counting.FlopCounter() as backward:
        torch.autograd.grad(output, leaves, torch.full_like(output, 0.5))
    return {"forward": _read(forward), "backward": _read(backward)}


def mlp(
    student: Any, *, x: Tensor, weights: Sequence[Tensor], x_needs_gradient: bool
) -> tuple[Any, Any]:
    """The totals of the forward pass of linear layers, and of their backward pass.

    There is a ReLU between every two layers.
    """
    x = x.clone().requires_grad_(x_needs_gradient)
    parameters = [nn.Parameter(w.clone()) for w in weights]
    with student.flop_counting.FlopCounter() as forward:
        for i, w in enumerate(parameters):
            x = F.linear(x.relu() if i else x, w)
    with student.flop_counting.FlopCounter() as backward:
        torch.autograd.backward(x.square().mean())
    return _plain(forward.total), _plain(backward.total)


def no_products(student: Any, *, x: Tensor) -> Any:
    """The total of work on a square matrix, forward and backward, without a matrix product."""
    table = nn.Parameter(x.clone())
    with student.flop_counting.FlopCounter() as counter:
        y = F.embedding(torch.tensor([[0, 1, 1]]), table) * 2 + 1
        y = F.layer_norm(F.gelu(y).softmax(-1), y.shape[-1:]).transpose(0, 1).contiguous()
        y = y + (x * x).sum(-1).exp().sort().values + torch.outer(x[0], x[1]).cumsum(0).mean()
        torch.autograd.backward(y.square().sum())
    return _plain(counter.total)


# --- flop_counter: when it counts


def session(student: Any, *, steps: Sequence[str], a: Tensor, b: Tensor) -> list[Read]:
    """Create, enter and leave counters in any order.

    Args:
        steps: Each step is a verb and a counter's name ("make x", "enter x", "leave x", "read x")
            or "run", which multiplies a and b.

    Returns:
        The reading of each "read".
    """
    counters: dict[str, Any] = {}
    reads = []
    for step in steps:
        verb, _, name = step.partition(" ")
        if verb == "make":
            counters[name] = student.flop_counting.FlopCounter()
        elif verb == "enter":
            counters[name].__enter__()
        elif verb == "leave":
            counters[name].__exit__(None, None, None)
        elif verb == "read":
            reads.append(_read(counters[name]))
        else:
            torch.mm(a, b)
    return reads


class _Stop(Exception):
    """An exception that is raised on purpose."""


def after_exception(student: Any, *, a: Tensor, b: Tensor) -> Escaped:
    """The total of a `with` that an exception ends after one product, and after another product."""
    counter, escaped = student.flop_counting.FlopCounter(), False
    try:
        with counter:
            torch.mm(a, b)
            raise _Stop
    except _Stop:
        escaped = True
    total = _plain(counter.total)
    torch.mm(a, b)
    return {"escaped": escaped, "total": total, "total_later": _plain(counter.total)}


# --- flop_counter: what it changes


def with_and_without(student: Any, *, work: str, inputs: Sequence[Tensor]) -> Traces:
    """The traces of a piece of work, first without a counter and then with one."""
    run: Callable[..., Trace] = WORK[work]
    without = run(*(x.clone() for x in inputs))
    with student.flop_counting.FlopCounter():
        with_counter = run(*(x.clone() for x in inputs))
    return {"without": without, "with_counter": with_counter}


def values(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """Results of operators of many kinds, some with keyword-only arguments."""
    y = torch.addmm(c, a, b, beta=0.25, alpha=-3.0)
    q = y[None, None].tanh()
    made = [
        torch.full((2,), 7.0, dtype=torch.float64),
        y.to(torch.bfloat16),
        torch.rand(3, generator=torch.Generator().manual_seed(5)),
        y.T.clone(memory_format=torch.contiguous_format),
    ]
    tensors = [
        y,
        F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.125),
        F.linear(a, b.T, c[0]),
        *made,
        *torch.topk(y, 2),
        y.sum(0, keepdim=True),
        *y.unbind(-1),
    ]
    return {"tensors": tensors, "facts": [made[-1].is_contiguous()]}


def gradients(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """A backward pass, and autograd's attributes of its tensors."""
    a, b = a.requires_grad_(), nn.Parameter(b)
    y = torch.addmm(c, a, b)
    hidden = F.scaled_dot_product_attention(y[None, None], y[None, None], y[None, None])
    torch.autograd.backward(hidden, hidden.detach().cos())
    facts = [y.requires_grad, y.grad_fn is not None, b.is_leaf, hidden.requires_grad]
    return {"tensors": [g for g in (a.grad, b.grad) if g is not None], "facts": facts}


def aliasing(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """In-place writes, writes through views, and the identities of the results."""
    y = torch.mm(a, b)
    view, flat = y.view(-1)[1:], y.flatten()
    view.add_(1.0)
    flat[2:].mul_(2.0)
    same = [c.mul_(3.0) is c, view._base is y]
    return {"tensors": [y, c, view, y.T], "facts": same}


def random_numbers(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """Draws from torch's generator, and the state of that generator afterwards."""
    torch.manual_seed(7)
    dropped = F.dropout(torch.mm(a, b), 0.5)
    noise = torch.randn_like(c)
    state: Tensor = torch.get_rng_state()
    return {"tensors": [dropped, noise, state], "facts": []}


WORK: dict[str, Callable[..., Trace]] = {
    "values": values,
    "gradients": gradients,
    "aliasing": aliasing,
    "random_numbers": random_numbers,
}


def _read(counter: Any) -> Read:
    by_op = counter.by_op
    if isinstance(by_op, Mapping):
        by_op = {str(kind): _plain(flops) for kind, flops in by_op.items()}
    return {"total": _plain(counter.total), "by_op": by_op}


def _plain(number: Any) -> Any:
    return int(number) if isinstance(number, Integral) else number


def _resolve(path: str) -> Callable[..., Any]:
    found: Any = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found  # type: ignore[no-any-return]
