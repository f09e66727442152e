"""Probes for flop_counting.py: a counter sees only its own process, so the work runs there.

A torch function is given by its path, such as "torch.nn.functional.linear", and looked up here.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Total(TypedDict):
    """A counter's total at one moment, as an int if it is an integer of any kind."""

    total: Any


class Read(TypedDict):
    """A counter's attributes at one moment, with integers of any kind as int."""

    total: Any
    by_op: Any


class Kept(TypedDict):
    """The result of `of_sequences`: an answer, and whether the arguments are as they were."""

    answer: Any
    kept: bool


class Pass(TypedDict):
    """The result of `forward_and_backward`: the reading of a counter for each pass."""

    forward: Read
    backward: Read


class Escaped(TypedDict):
    """The result of `after_exception`."""

    failed: bool
    escaped: bool
    read: Read
    outer: Total
    read_later: Read
    read_again: Total


class Trace(TypedDict):
    """The traces of a piece of work: tensors, and facts that no tensor shows."""

    tensors: list[Tensor]
    facts: list[bool]


class Traces(TypedDict):
    """The result of `with_and_without`."""

    without: Trace
    with_counter: Trace


# --- flop_formulas


def transformer(student: Any, *, config: dict[str, Any], batch: int, seq: int) -> Any:
    """transformer_forward_flops of the student's own TransformerConfig with these fields.

    Neither calls whose arguments differ in one place, nor what their caller does with a result, may
    change the answer.
    """

    def parts(batch: int, seq: int, **fields: Any) -> Any:
        made = student.flop_counting.TransformerConfig(**{**config, **fields})
        return student.flop_counting.transformer_forward_flops(made, batch, seq)

    # Fields that do not change the answer come last: their calls could hide an earlier one.
    parts(batch, seq, gated_ffn=not config.get("gated_ffn", False))
    parts(batch, seq, d_model=config["d_model"] + config["num_heads"])
    for field in ("vocab_size", "num_layers", "d_ff", "context_length"):
        parts(batch, seq, **{field: config[field] + 1})
    parts(batch, seq, tied_embeddings=not config.get("tied_embeddings", False))
    for other in [(batch * seq, min(1, seq)), (batch, max(0, seq - 1))]:
        parts(*other)
    earlier = parts(batch, seq)
    if isinstance(earlier, MutableMapping):
        earlier.clear()
    answer = parts(batch, seq)
    parts(batch + 1, seq)
    return answer


def transformers(student: Any, *, models: Sequence[tuple[dict[str, Any], int, int]]) -> list[Any]:
    """`transformer` of each of these configs, batches and sequence lengths."""
    return [
        transformer(student, config=config, batch=batch, seq=seq) for config, batch, seq in models
    ]


def with_options(
    student: Any, *, function: str, calls: Sequence[tuple[Sequence[Any], dict[str, Any]]]
) -> list[Any]:
    """The answers to calls with these arguments and options, one after the other."""
    called = getattr(student.flop_counting, function)
    return [called(*args, **options) for args, options in calls]


def of_sequences(
    student: Any,
    *,
    function: str,
    before: Sequence[int],
    shapes: Sequence[Sequence[int]],
    kind: str,
) -> Kept:
    """The answer for shapes of this kind: "list", or "Size" for a Size and a list.

    A list had other sizes in an earlier call.
    """
    kinds: list[Callable[[Sequence[int]], Any]] = [list if kind == "list" else torch.Size, list]
    call = getattr(student.flop_counting, function)
    made = [make([2 * size for size in shape]) for make, shape in zip(kinds, shapes, strict=False)]
    call(*before, *made)
    for i, shape in enumerate(shapes):
        if isinstance(made[i], list):
            made[i][:] = shape
        else:
            made[i] = torch.Size(shape)
    answer = call(*before, *made)
    return {"answer": answer, "kept": list(map(list, made)) == list(map(list, shapes))}


# --- flop_counter: what is counted


def count(
    student: Any,
    *,
    function: str,
    args: Sequence[Any],
    options: dict[str, Any] | None = None,
    mode: str = "",
    views: bool = False,
) -> Read:
    """A counter after one call of a function of torch.

    Args:
        function: The function's path.
        args: The function's arguments.
        options: The function's keyword arguments.
        mode: "no_grad" or "inference_mode", the mode for copying the arguments and for the call;
            "inference_tensors" for copies that are created in inference mode and used outside.
        views: Whether the arguments are every other element of larger tensors.
    """
    later = mode == "inference_tensors"
    with _in_mode("inference_mode" if later else mode):
        args = [x.clone() if isinstance(x, Tensor) else x for x in args]
        if views:
            args = [torch.stack([x, x], -1)[..., 1] for x in args]
    with _in_mode("" if later else mode), student.flop_counting.FlopCounter() as counter:
        _resolve(function)(*args, **(options or {}))
    return _read(counter)


def counts(student: Any, *, cases: Sequence[dict[str, Any]]) -> list[Total]:
    """The total after one call of a function of torch, for each of these arguments of `count`."""
    return [{"total": count(student, **case)["total"]} for case in cases]


def reads(student: Any, *, cases: Sequence[dict[str, Any]]) -> list[Read]:
    """A counter after one call of a function of torch, for each of these arguments of `count`."""
    return [count(student, **case) for case in cases]


def forward_and_backward(
    student: Any,
    *,
    function: str,
    args: Sequence[Tensor],
    needs_gradient: Sequence[bool],
    options: dict[str, Any] | None = None,
    extra: Sequence[Any] = (),
    recorded: bool = False,
) -> Pass:
    """A counter of a torch function's call, and another of the backward pass of its (first) result.

    Args:
        needs_gradient: Whether each of `args` requires a gradient.
        extra: Further arguments, which are not tensors.
        recorded: Whether autograd records the backward pass, as for second derivatives.
    """
    leaves = [
        x.clone().requires_grad_(needs) for x, needs in zip(args, needs_gradient, strict=True)
    ]
    with student.flop_counting.FlopCounter() as forward:
        result = _resolve(function)(*leaves, *extra, **(options or {}))
    output = result[0] if isinstance(result, tuple) else result
    with student.flop_counting.FlopCounter() as backward:
        torch.autograd.grad(
            output,
            [x for x in leaves if x.requires_grad],
            torch.full_like(output, 0.5),
            create_graph=recorded,
        )
    return {"forward": _read(forward), "backward": _read(backward)}


def mlp(
    student: Any, *, x: Tensor, weights: Sequence[Tensor], x_needs_gradient: bool
) -> tuple[Total, Total]:
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
    return _total(forward), _total(backward)


def no_products(student: Any, *, x: Tensor) -> list[Total]:
    """The totals after work on a square matrix that includes no matrix product.

    The first work includes a backward pass, and the second runs in inference mode.
    """
    totals = []
    for infers in (False, True):
        with torch.inference_mode(infers), student.flop_counting.FlopCounter() as counter:
            table = nn.Parameter(x.clone())
            y = F.embedding(torch.tensor([[0, 1, 1]]), table) * 2 + 1
            y = F.layer_norm(F.gelu(y).softmax(-1), y.shape[-1:]).transpose(0, 1).contiguous()
            y = y + (x * x).sum(-1).exp().sort().values + torch.outer(x[0], x[1]).cumsum(0).mean()
            y = y + torch.einsum("ij,ij->ij", x, x).flatten().mean()
            if not infers:
                torch.autograd.backward(y.square().sum())
            torch.mvlgamma(x.abs() + 2, 2)  # begins like mv
        totals += [_total(counter)]
    return totals


def several_kinds(student: Any, *, a: Tensor, b: Tensor, times: int) -> Read:
    """A counter after mm, bmm, mv, attention and their backward pass; mm runs `times` times."""
    a, b = a.clone().requires_grad_(), b.clone()
    with student.flop_counting.FlopCounter() as counter:
        for _ in range(times):
            y = torch.mm(a, b)
        y = torch.bmm(y.expand(3, *y.shape), y.T.expand(3, *y.T.shape))
        y = F.scaled_dot_product_attention(y[None], y[None], y[None])
        y = torch.mv(y[0, 0], y[0, 0, 0])
        torch.autograd.backward(y.sum())
    return _read(counter)


def mixture(student: Any, *, calls: Sequence[tuple[str, Sequence[Any]]]) -> Read:
    """A counter after several calls of functions of torch."""
    with student.flop_counting.FlopCounter() as counter:
        for function, args in calls:
            _resolve(function)(*args)
    return _read(counter)


# --- flop_counter: when it counts


def session(
    student: Any,
    *,
    steps: Sequence[str],
    a: Tensor,
    b: Tensor,
    function: str = "torch.mm",
    mode: str = "",
) -> list[Read]:
    """Create, enter and leave counters in any order.

    Args:
        steps: Each step is a verb and a counter's name ("make x", "enter x", "leave x", "read x")
            or "run", which runs the function of a and b.
        function: The function's path.
        mode: As for `count`.

    Returns:
        The reading of each "read".
    """
    counters: dict[str, Any] = {}
    reads = []
    with _in_mode(mode):
        a, b = a.clone(), b.clone()
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
                _resolve(function)(a, b)
    return reads


class _Stop(Exception):
    """An exception that is raised on purpose."""


class _Interrupt(BaseException):
    """An exception that is raised on purpose, and is not an error."""


def after_exception(
    student: Any, *, a: Tensor, b: Tensor, function: str, mode: str, end: str
) -> Escaped:
    """A counter whose `with` an exception ends after two products, and the counter after another.

    Between the two, products fail because the shapes or the dtypes of their operands do not fit. An
    outer counter counts a further product, and the exception passes through it, too. In the end
    the counter is entered again for one product.

    Args:
        function: The path of the function that computes the products.
        mode: As for `count`.
        end: What ends the `with`: an "error", an "interrupt" or an "operator" that fails.
    """
    product, counter = _resolve(function), student.flop_counting.FlopCounter()
    outer = student.flop_counting.FlopCounter()
    failures, escaped = 0, False
    with _in_mode(mode):
        a, b = a.clone(), b.clone()
        wrong = torch.zeros(1, dtype=torch.int64)
        failing: list[Callable[[], Any]] = [
            lambda: product(a, a),
            lambda: product(a, b.double()),
            lambda: torch.mm(a, b, out=wrong),
            lambda: torch.bmm(a, b),
            lambda: a.clone().addmm_(a, a),
        ]
        try:
            with outer:
                product(a, b)
                with counter:
                    product(a, b)
                    for fails in failing:
                        try:
                            fails()
                        except Exception:  # torch's, or the counter's own about the shapes
                            failures += 1
                    product(a, b)
                    if end == "operator":
                        product(a, a)
                    raise _Interrupt if end == "interrupt" else _Stop
        except (_Stop, _Interrupt):
            escaped = end != "operator"
        except Exception:
            escaped = end == "operator"
        read = _read(counter)
        product(a, b)
        read_later = _read(counter)
        with counter:
            product(a, b)
    return {
        "failed": failures == len(failing),
        "escaped": escaped,
        "read": read,
        "outer": _total(outer),
        "read_later": read_later,
        "read_again": _total(counter),
    }


# --- flop_counter: what it changes


def with_and_without(
    student: Any, *, work: str, inputs: Sequence[Tensor], inference: bool = False
) -> Traces:
    """The traces of a piece of work, first without a counter and then with one.

    The work may run in inference mode.
    """
    run: Callable[..., Trace] = WORK[work]
    with torch.inference_mode(inference):
        without = run(*(x.clone() for x in inputs))
        with student.flop_counting.FlopCounter():
            with_counter = run(*(x.clone() for x in inputs))
    return {"without": without, "with_counter": with_counter}


def values(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """Results of operators of many kinds, some with keyword-only arguments."""
    y = torch.addmm(c, a, b, beta=0.25, alpha=-3.0)
    stacked = torch.baddbmm(
        c.expand(2, *c.shape), a.expand(2, *a.shape), b.expand(2, *b.shape), alpha=0.5
    )
    q = y[None, None].tanh()
    attended = F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.125)
    made = [
        torch.arange(3, dtype=torch.int16),
        torch.full((2,), 7.0, dtype=torch.float64),
        y.to(torch.bfloat16),
        torch.rand(3, generator=torch.Generator().manual_seed(5)),
        y.T.clone(memory_format=torch.contiguous_format),
    ]
    largest = y.max(dim=-1)
    tensors = [
        y,
        stacked,
        attended,
        *made,
        *torch.topk(y, 2),
        largest.indices,
        y.sum(0, keepdim=True),
        *y.unbind(-1),
    ]
    facts = [type(largest).__name__ == "max", y.is_contiguous(), made[-1].is_contiguous()]
    return {"tensors": tensors, "facts": [*facts, torch.zeros(2, device="meta").is_meta]}


def products(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """Results of composite operators, one of them with a keyword-only argument."""
    q, k = torch.stack([a, a.cos()])[None], a.sin()[None, None]
    attended = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    out = torch.empty(1, 2, *c.shape, dtype=c.dtype)
    tensors = [
        attended,
        F.scaled_dot_product_attention(q, q, q, scale=0.01),
        torch.matmul(q, b, out=out),
        F.linear(a, b.T, c[0]),
        attended @ b,
        torch.einsum("mk,kn->nm", a, b),
        torch.tensordot(a, b, dims=1),
    ]
    return {"tensors": tensors, "facts": [tensors[2] is out, *(x.is_contiguous() for x in tensors)]}


def aliasing(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """In-place writes, writes through views, and the identities of the results."""
    out = torch.zeros_like(c)
    same = [torch.mm(a, b, out=out) is out, out.addmm_(a, b) is out, c.mul_(3.0) is c]
    view = out.view(-1)[1:]
    view.add_(1.0)
    # These are composite operators.
    flat, turned = out.flatten(), out.T
    flat[2:].mul_(2.0)
    row = out[0].detach()
    row.zero_()
    address = out.untyped_storage().data_ptr()
    same += [
        view._base is out,
        view.untyped_storage().data_ptr() == address,
        row.untyped_storage().data_ptr() == address,
        flat.untyped_storage().data_ptr() == address,
        turned.untyped_storage().data_ptr() == address,
        out.is_inference(),
    ]
    return {"tensors": [out, c, view, row], "facts": same}


def gradients(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """A backward pass, and autograd's attributes of its tensors."""
    a, b = a.requires_grad_(), nn.Parameter(b)
    y = torch.addmm(c, a, b)
    hidden = F.scaled_dot_product_attention(y[None, None], y[None, None], y[None, None])
    torch.autograd.backward(hidden, hidden.detach().cos())
    facts = [
        y.requires_grad,
        y.grad_fn is not None,
        y.is_leaf,
        b.is_leaf,
        hidden.requires_grad,
        c.requires_grad,
        c.grad is None,
    ]
    return {"tensors": [g for g in (a.grad, b.grad) if g is not None], "facts": facts}


def random_numbers(a: Tensor, b: Tensor, c: Tensor) -> Trace:
    """Draws from torch's generator, and the state of that generator afterwards."""
    torch.manual_seed(7)
    dropped = F.dropout(torch.mm(a, b), 0.5)
    noise = torch.randn_like(c)
    c.bernoulli_(0.5)
    state: Tensor = torch.get_rng_state()
    return {"tensors": [dropped, noise, c, state], "facts": []}


WORK: dict[str, Callable[..., Trace]] = {
    "values": values,
    "products": products,
    "aliasing": aliasing,
    "gradients": gradients,
    "random_numbers": random_numbers,
}


def _total(counter: Any) -> Total:
    return {"total": _plain(counter.total)}


def _read(counter: Any) -> Read:
    by_op = counter.by_op
    if isinstance(by_op, Mapping):
        by_op = {str(kind): _plain(flops) for kind, flops in by_op.items()}
    return {**_total(counter), "by_op": by_op}


def _in_mode(mode: str) -> AbstractContextManager[Any]:
    """The mode of this name: "no_grad", "inference_mode", or "" for none."""
    return getattr(torch, mode)() if mode else nullcontext()


def _plain(number: Any) -> Any:
    return int(number) if isinstance(number, Integral) else number


def _resolve(path: str) -> Callable[..., Any]:
    found: Any = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found  # type: ignore[no-any-return]
