"""Probes for activation_checkpointing.py: graphs, gradients and memory stay in their process.

The memory that a graph keeps is measured here without the student's own count. Every storage that
an operation creates during the forward pass is watched, and those that are still alive afterwards
count as kept, no matter which object refers to them.
"""

import copy
import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Wrap = Callable[..., Any]


class Counted(TypedDict):
    """The result of `saved_bytes`; `calls` is the number of calls of fn during the first count."""

    result: Any
    result_again: Any  # of a second count, which excludes nothing
    calls: int
    leaves_gradients: bool


class CountedTwice(TypedDict):
    """The result of `saved_bytes_of_each` for each input: a part of that of `saved_bytes`."""

    result: Any
    result_again: Any


class Gradients(TypedDict):
    """An output and its gradients."""

    output: Any
    input_gradients: list[Tensor | None]
    parameter_gradients: list[Tensor | None]


class GradientsAndCalls(Gradients):
    """The same, and the number of calls of the function."""

    calls: int


class Calls(TypedDict):
    """The result of `calls`: the number of calls and their inputs, at three moments."""

    after_forward: int
    after_backward: int
    inputs: list[Tensor]


class Dropped(TypedDict):
    """The result of `dropped`; `calls` is the total number of calls of the function."""

    output: Any
    gradient: Tensor | None
    forward_draws_as_plain: bool
    random_state_is_as_before: bool
    calls: int


class Kept(TypedDict):
    """The result of `bytes_kept`."""

    output: Any
    requires_grad: bool
    bytes: int


class WithoutGradients(TypedDict):
    """The result of `without_gradients`."""

    output: Any
    requires_grad: bool
    calls: int


class Layers(TypedDict):
    """The result of `layers`: the numbers of the layers in the order in which they ran."""

    forward: list[int]
    backward: list[int]


class Module(TypedDict):
    """The result of `module` for a CheckpointedSequential."""

    parameters_are_the_layers: bool
    state: int  # the number of tensors in its state_dict
    some_train: bool
    output_in_eval: Any
    output_with_one_in_eval: Any
    output_of_zeros: Any  # of a deep copy whose parameters and buffers are set to 0


# --- saved_activation_bytes


def _times_gradient(e: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(3 * e.sum(), x, retain_graph=True)
    return e * gradient


def _gradients_one_after_the_other(x: Tensor) -> Tensor:
    """The storages that one backward pass frees can be those that the next forward pass gets."""
    for _ in range(64):  # after 8 of them, no place may have been used again
        torch.autograd.grad(x.exp().sum(), x)
    return x


SAVES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of two tensors of one shape
    "exp x": lambda x, y: x.exp(),
    "sin x": lambda x, y: x.sin(),
    "sin x, cos x, x·x": lambda x, y: x.sin() + x.cos() + x * x,
    "sin of views of x": lambda x, y: x.sin().sum() + x.T.cos().sum() + x.flatten()[3:].sin().sum(),
    "sin of a row of x": lambda x, y: x[1].sin(),
    "an expanded row of x, times y": lambda x, y: x[:1].expand(x.shape) * y,
    "sin x, sin y": lambda x, y: x.sin() + y.sin(),
    "gelu of x·y": lambda x, y: F.gelu(x * y),
    "exp of sin x": lambda x, y: x.sin().exp(),
    "x + y": lambda x, y: x + y,
    "exp x times its gradient": lambda x, y: _times_gradient(x.exp(), x),
    "exp x and its gradient, 64 times": lambda x, y: _gradients_one_after_the_other(x),
    "x where y is above 1": lambda x, y: torch.where(y > 1, x, 0.0),
    "sin of a parameter": lambda x, y: nn.Parameter(x.detach().clone()).sin(),
    "sin of a parameter that is a row of x": lambda x, y: nn.Parameter(x.detach()[1]).sin(),
    "rows of x by number": lambda x, y: x.index_select(0, torch.arange(len(x)).flip(0)),
}


def saved_bytes(
    student: Any,
    *,
    save: str,
    x: Tensor,
    y: Tensor,
    exclude: Sequence[str] | None = None,
    kind: str = "iterator",
    requires_grad: bool = True,
    grad_enabled: bool = True,
) -> Counted:
    """saved_activation_bytes of one of SAVES.

    `exclude` names "x", "y" or views of them, and is passed as an iterator, list or tuple.
    """
    # A fresh copy: a tensor from another process may be a view of a storage of another size.
    x, y = (_fresh(t).requires_grad_(requires_grad) for t in (x, y))
    calls = 0

    def fn() -> Tensor:
        nonlocal calls
        calls += 1
        return SAVES[save](x, y)

    tensors = {"x": x, "y": y, "x repeated": x.detach().expand(3, *x.shape)}
    if x.dim() == 2:
        tensors |= {"a row of x": x.detach()[1:2], "x transposed": x.T}

    def count(names: Sequence[str] | None = None) -> Any:
        options: dict[str, Any] = {}
        if names is not None:
            given = (tensors[name] for name in names)
            kinds: dict[str, Callable[..., Any]] = {
                "iterator": lambda given: filter(torch.is_tensor, given),
                "list": list,
                "tuple": tuple,
            }
            options = {"exclude": kinds[kind](given)}
        with torch.set_grad_enabled(grad_enabled):
            return student.activation_checkpointing.saved_activation_bytes(fn, **options)

    result = count(exclude)
    once = calls
    return {
        "result": result,
        "result_again": count(),
        "calls": once,
        "leaves_gradients": x.grad is not None or y.grad is not None,
    }


def saved_bytes_of_each(student: Any, *, cases: Sequence[dict[str, Any]]) -> list[CountedTwice]:
    """The result of `saved_bytes` for each of these inputs, in short."""
    results = (saved_bytes(student, **case) for case in cases)
    return [{"result": got["result"], "result_again": got["result_again"]} for got in results]


def saved_bytes_of_layers(
    student: Any,
    *,
    activation: str,
    x: Tensor,
    layers: int,
    on_meta: bool = False,
    all_counted: bool = True,
) -> Any:
    """saved_activation_bytes of a stack of bias-free linear layers.

    Parameters are included, unless not `all_counted`.

    Each layer is followed by an activation function.
    """
    device = "meta" if on_meta else "cpu"
    model = nn.Sequential()
    for _ in range(layers):
        model.append(nn.Linear(x.shape[1], x.shape[1], bias=False, device=device)).append(
            getattr(nn, activation)()
        )
    x = x.to(device).requires_grad_()
    exclude = () if all_counted else model.parameters()
    return student.activation_checkpointing.saved_activation_bytes(lambda: model(x), exclude)


# --- checkpoint


def gradients(
    student: Any,
    *,
    x: Tensor,
    y: Tensor,
    ids: Tensor,
    parameters: Sequence[Tensor],
    upstream: Tensor,
    requires_grad: tuple[bool, bool] = (True, True),
) -> GradientsAndCalls:
    """Gradients of checkpoint(fn, x, y, ids, x) if fn uses two parameters; see `gradients_of`."""
    return gradients_of(
        student.activation_checkpointing.checkpoint,
        x=x,
        y=y,
        ids=ids,
        parameters=parameters,
        upstream=upstream,
        requires_grad=requires_grad,
    )


def gradients_of(
    wrap: Wrap,
    *,
    x: Tensor,
    y: Tensor,
    ids: Tensor,
    parameters: Sequence[Tensor],
    upstream: Tensor,
    requires_grad: tuple[bool, bool] = (True, True),
) -> GradientsAndCalls:
    """Output and gradients of wrap(fn, …), where x is a leaf and y is an operation's result.

    Gradients start at 1.

    Args:
        wrap: A function that calls its first argument with the others in its own way.
        x: The first input, which is also the last one.
        y: A leaf whose sine is the second input.
        ids: Integers.
        parameters: Two matrices that the function uses from its enclosing scope.
        upstream: The output's gradient.
        requires_grad: Whether x and whether y requires a gradient.
    """
    leaves = [
        x.clone().requires_grad_(requires_grad[0]),
        y.clone().requires_grad_(requires_grad[1]),
    ]
    first, second = weights = [nn.Parameter(p.clone()) for p in parameters]
    for tensor in [*(leaf for leaf in leaves if leaf.requires_grad), *weights]:
        tensor.grad = torch.ones_like(tensor)
    calls = 0

    def fn(a: Tensor, b: Tensor, rows: Tensor, c: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return ((a.sin() @ first).tanh().exp() @ second) * b[rows] + c.cos().sum()

    output = wrap(fn, leaves[0], leaves[1].sin(), ids, leaves[0])
    _backward(output, upstream)
    return {
        "calls": calls,
        "output": _result(output),
        "input_gradients": [_copy(leaf.grad) for leaf in leaves],
        "parameter_gradients": [_copy(weight.grad) for weight in weights],
    }


FUNCTIONS: dict[str, Callable[..., Tensor]] = {  # of a parameter and the inputs
    "p·a²·b": lambda p, a, b: p * a * a * b,
    "a itself": lambda p, a, b: a,
    "a view of a": lambda p, a, b: a.reshape(-1)[:2],
    "2a, detached": lambda p, a, b: 2 * a.detach(),
    "p²": lambda p: p * p,
}


def gradients_of_one(
    student: Any, *, function: str, inputs: Sequence[Tensor], upstream: Tensor
) -> GradientsAndCalls:
    """Gradients of checkpoint of one of FUNCTIONS; see `gradients_of_one_of`."""
    wrap = student.activation_checkpointing.checkpoint
    return gradients_of_one_of(wrap, function=function, inputs=inputs, upstream=upstream)


def gradients_of_each(student: Any, *, cases: Sequence[dict[str, Any]]) -> list[GradientsAndCalls]:
    """The same for each of these inputs, one after the other."""
    return [gradients_of_one(student, **case) for case in cases]


def gradients_of_one_of(
    wrap: Wrap, *, function: str, inputs: Sequence[Tensor], upstream: Tensor
) -> GradientsAndCalls:
    """Output and gradients of one of FUNCTIONS, whose parameter is 3 in the upstream's dtype.

    The inputs are not leaves. Those that can require a gradient do.
    """
    parameter = nn.Parameter(torch.full_like(upstream.reshape(-1)[:1].sum(), 3))
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]

    calls = 0

    def fn(*points: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return FUNCTIONS[function](parameter, *points)

    output = wrap(fn, *(leaf.view_as(leaf) for leaf in leaves))
    _backward(output, upstream)
    return {
        "calls": calls,
        "output": _result(output),
        "input_gradients": [_copy(leaf.grad) for leaf in leaves],
        "parameter_gradients": [_copy(parameter.grad)],
    }


def nested_gradients(
    student: Any, *, x: Tensor, parameters: Sequence[Tensor], upstream: Tensor
) -> GradientsAndCalls:
    """Gradients of a checkpointed function that checkpoints a part of itself.

    See `nested_gradients_of`.
    """
    wrap = student.activation_checkpointing.checkpoint
    return nested_gradients_of(wrap, x=x, parameters=parameters, upstream=upstream)


def nested_gradients_of(
    wrap: Wrap, *, x: Tensor, parameters: Sequence[Tensor], upstream: Tensor
) -> GradientsAndCalls:
    """Output and gradients of a function under `wrap` that calls one part twice under `wrap`."""
    leaf = x.clone().requires_grad_()
    first, second = weights = [nn.Parameter(p.clone()) for p in parameters]
    calls = 0

    def inner(z: Tensor) -> Tensor:
        return (z @ first).tanh().exp()

    def fn(z: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        hidden: Tensor = wrap(inner, z.sin()) - wrap(inner, z.cos())
        return (hidden @ second).cos()

    output = wrap(fn, leaf)
    _backward(output, upstream)
    return {
        "calls": calls,
        "output": _result(output),
        "input_gradients": [_copy(leaf.grad)],
        "parameter_gradients": [_copy(weight.grad) for weight in weights],
    }


def calls(student: Any, *, x: Tensor, upstream: Tensor) -> Calls:
    """The number of calls that checkpoint makes of its function, and their inputs."""
    leaf = x.clone().requires_grad_()
    seen: list[Tensor] = []

    def fn(z: Tensor) -> Tensor:
        seen.append(z.detach().clone())
        return z.sin().exp()

    output = student.activation_checkpointing.checkpoint(fn, leaf)
    after_forward = len(seen)
    _backward(output, upstream)
    return {"after_forward": after_forward, "after_backward": len(seen), "inputs": seen}


def dropped(
    student: Any,
    *,
    x: Tensor,
    upstream: Tensor,
    nested: bool = False,
    another: bool = False,
    module: bool | None = None,
) -> Dropped:
    """checkpoint of a dropout, with random numbers drawn before it and before the backward pass.

    The dropout may be in a checkpoint of its own inside the function (`nested`), and the function
    may have `another` checkpoint before the backward pass. The function is a `module` in training
    mode if that is True, or in eval mode if it is False, and drops entries in this mode.
    """
    leaf = x.clone().requires_grad_()
    checkpoint = student.activation_checkpointing.checkpoint
    calls = 0

    def drop(z: Tensor) -> Tensor:
        return F.dropout(z, 0.5)

    def fn(z: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        dropped: Tensor = checkpoint(drop, z.tanh()) if nested else drop(z.tanh())
        return dropped

    torch.rand(7)
    start = torch.get_rng_state()
    F.dropout(x.tanh(), 0.5)
    plain = torch.get_rng_state()
    torch.set_rng_state(start)
    called = fn if module is None else _Module(fn, module)
    output = checkpoint(called, leaf)
    forward_draws_as_plain = torch.equal(plain, torch.get_rng_state())
    if another:
        before_it = calls
        checkpoint(called, leaf)
        calls = before_it
    torch.rand(3)
    before = torch.get_rng_state()
    _backward(output, upstream)
    return {
        "output": _result(output),
        "gradient": _copy(leaf.grad),
        "forward_draws_as_plain": forward_draws_as_plain,
        "random_state_is_as_before": torch.equal(before, torch.get_rng_state()),
        "calls": calls,
    }


class _Module(nn.Module):
    """A function as a module in training or eval mode, which works in this mode only."""

    def __init__(self, fn: Callable[[Tensor], Tensor], trains: bool) -> None:
        super().__init__()
        self.fn, self.trains = fn, trains
        self.train(trains)

    def forward(self, x: Tensor) -> Tensor:
        return self.fn(x) if self.training == self.trains else x


def without_gradients(
    student: Any, *, x: Tensor, weight: Tensor, inference: bool
) -> WithoutGradients:
    """checkpoint with gradients disabled by no_grad or inference_mode."""
    parameter = nn.Parameter(weight.clone())
    leaf = x.clone().requires_grad_()
    count = 0

    def fn(z: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return z @ parameter

    with torch.inference_mode() if inference else torch.no_grad():
        output = student.activation_checkpointing.checkpoint(fn, leaf)
    return {
        "output": _result(output),
        "requires_grad": isinstance(output, Tensor) and output.requires_grad,
        "calls": count,
    }


def autocast_dtypes(
    student: Any,
    *,
    x: Tensor,
    weight: Tensor,
    forward: bool,
    backward: bool,
    dtype: torch.dtype = torch.bfloat16,
) -> list[torch.dtype]:
    """The dtype of a product in each call of a checkpointed function.

    Autocast to `dtype` is on in the forward pass, and to bfloat16 in the backward pass.
    """
    parameter, leaf = nn.Parameter(weight.clone()), x.clone().requires_grad_()
    dtypes = []

    def fn(z: Tensor) -> Tensor:
        product = z @ parameter
        dtypes.append(product.dtype)
        return product.sin()

    with torch.autocast("cpu", dtype, enabled=forward):
        output = student.activation_checkpointing.checkpoint(fn, leaf)
    with torch.autocast("cpu", torch.bfloat16, enabled=backward):
        _backward(output)
    return dtypes


def bytes_kept(
    student: Any,
    *,
    x: Tensor,
    weight: Tensor,
    grad_enabled: bool = True,
    summed: bool = False,
    nested: bool = False,
    transposed: bool = False,
) -> Kept:
    """Output of checkpoint(fn, x, y), and the bytes alive after the forward pass.

    Inputs, parameters and output are not counted. If it is `summed`, the output is only the sum,
    which does not need the function's result. The second half of the function may be in a
    checkpoint of its own (`nested`), and the inputs may be `transposed` in memory.
    """
    leaf, parameter = x.clone(), nn.Parameter(weight.clone())
    if transposed:
        leaf = x.T.contiguous().T
    other = leaf.sin().requires_grad_()
    leaf.requires_grad_()

    def second(hidden: Tensor) -> Tensor:
        return F.silu(hidden @ parameter).sin()

    def fn(a: Tensor, b: Tensor) -> Tensor:
        hidden = F.gelu(a @ parameter) * b.sin()
        hidden = hidden + 0 * F.dropout(hidden, 0.5)  # random numbers that do not matter
        result: Tensor = (
            student.activation_checkpointing.checkpoint(second, hidden)
            if nested
            else second(hidden)
        )
        return result

    def checkpoint(*args: Any) -> Any:
        result = student.activation_checkpointing.checkpoint(*args)
        return result.sum() if summed else result

    with torch.set_grad_enabled(grad_enabled):
        output, alive = _bytes_alive(checkpoint, fn, leaf, other, besides=[parameter])
    requires_grad = isinstance(output, Tensor) and output.requires_grad
    return {"output": _result(output), "requires_grad": requires_grad, "bytes": alive}


# --- CheckpointedSequential


class Block(nn.Module):
    """sin(x W + b); the block records its number whenever it runs."""

    def __init__(self, number: int, weight: Tensor, notes: list[int] | None = None) -> None:
        super().__init__()
        self.number, self.notes = number, [] if notes is None else notes
        self.weight = nn.Parameter(weight.clone())
        self.bias = nn.Buffer(weight[0].clone())

    def forward(self, x: Tensor) -> Any:
        """Compute one product and one sine, each of which keeps its input."""
        self.notes.append(self.number)
        return (x @ self.weight + self.bias).sin()


def sequential_gradients(
    student: Any,
    *,
    x: Tensor,
    weights: Sequence[Tensor],
    order: Sequence[int],
    upstream: Tensor,
    segments: int,
    frozen: int = 0,
    hooked: bool = False,
    again: bool = False,
) -> Gradients:
    """Gradients of a CheckpointedSequential; see `sequential_gradients_of`.

    The caller's list of layers is emptied once the module is made. With `again` it is a tuple.
    """

    def make(blocks: list[nn.Module]) -> Wrap:
        given = tuple(blocks) if again else blocks
        model: nn.Module = student.activation_checkpointing.CheckpointedSequential(given, segments)
        blocks.clear()
        return model

    options: dict[str, Any] = {"frozen": frozen, "hooked": hooked, "again": again}
    return sequential_gradients_of(
        make, x=x, weights=weights, order=order, upstream=upstream, **options
    )


def segments_by_hand(
    student: Any,
    *,
    x: Tensor,
    weights: Sequence[Tensor],
    order: Sequence[int],
    upstream: Tensor,
    segments: int,
    frozen: int = 0,
) -> Gradients:
    """The gradients when the layers are split into equal segments, each one call of checkpoint.

    See `sequential_gradients_of`.
    """
    checkpoint = student.activation_checkpointing.checkpoint
    length = len(order) // segments

    def make(blocks: list[nn.Module]) -> Wrap:
        parts = [nn.Sequential(*blocks[i : i + length]) for i in range(0, len(blocks), length)]
        return lambda x: functools.reduce(lambda y, part: checkpoint(part, y), parts, x)

    return sequential_gradients_of(
        make, x=x, weights=weights, order=order, upstream=upstream, frozen=frozen
    )


def sequential_gradients_of(
    make: Callable[[list[nn.Module]], Wrap],
    *,
    x: Tensor,
    weights: Sequence[Tensor],
    order: Sequence[int],
    upstream: Tensor,
    frozen: int = 0,
    hooked: bool = False,
    again: bool = False,
) -> Gradients:
    """Output and gradients of blocks in sequence, in the order of these numbers.

    A block may come twice. With `frozen`, the input and this many first weights require no
    gradient, and neither do the other weights until the module is made. With `hooked`, the last
    block has a hook that doubles its output. `again` runs the blocks on two inputs before one
    backward pass through both outputs, of which the second is returned.
    """
    blocks = [Block(i, weight) for i, weight in enumerate(weights)]
    for block in blocks if frozen else []:
        block.requires_grad_(False)
    if hooked:
        blocks[-1].register_forward_hook(lambda module, inputs, output: 2 * output)
    leaf = x.clone().requires_grad_(not frozen)
    model = make([blocks[i] for i in order])
    for block in blocks[frozen:]:
        block.requires_grad_()
    first = model(1 - leaf) if again else None
    output = model(leaf)
    _backward(first, upstream)
    _backward(output, upstream)
    return {
        "output": _result(output),
        "input_gradients": [_copy(leaf.grad)],
        "parameter_gradients": [_copy(block.weight.grad) for block in blocks],
    }


def layers(student: Any, *, x: Tensor, weight: Tensor, count: int, segments: int) -> Layers:
    """The layers that run in the forward and in the backward pass of a CheckpointedSequential."""
    notes: list[int] = []
    blocks = [Block(i, weight, notes) for i in range(count)]
    output = student.activation_checkpointing.CheckpointedSequential(blocks, segments)(
        x.clone().requires_grad_()
    )
    forward = list(notes)
    _backward(output)
    return {"forward": forward, "backward": notes[len(forward) :]}


class _Noted(nn.Module):
    """The sine; the layer notes its number whenever it runs."""

    def __init__(self, number: int, notes: bytearray) -> None:
        super().__init__()
        self.number, self.notes = number, notes

    def forward(self, x: Tensor) -> Tensor:
        self.notes.append(self.number)
        return x.sin()


def layers_of_each(student: Any, *, pairs: Sequence[tuple[int, int]]) -> list[tuple[bytes, bytes]]:
    """For each (number of layers, number of segments), the layers that run, as in `layers`."""
    notes = bytearray()
    noted = [_Noted(i, notes) for i in range(max(count for count, _ in pairs))]
    x = torch.zeros(1, requires_grad=True)
    results = []
    for count, segments in pairs:
        notes.clear()
        model = student.activation_checkpointing.CheckpointedSequential(noted[:count], segments)
        output = model(x)
        forward = bytes(notes)
        _backward(output)
        results.append((forward, bytes(notes[len(forward) :])))
    return results


def sequential_bytes_kept(
    student: Any,
    *,
    x: Tensor,
    weight: Tensor,
    count: int,
    segments: int,
    evaluates: bool = False,
    requires_grad: bool = True,
    frozen: bool = False,
    repeated: bool = False,
) -> int:
    """Bytes alive after the forward pass of a CheckpointedSequential.

    Its input, parameters and output are not counted. The layers may be `frozen`, or one layer that
    is `repeated`.
    """
    blocks = [Block(i, weight).requires_grad_(not frozen) for i in range(count)]
    blocks = blocks[:1] * count if repeated else blocks
    model = student.activation_checkpointing.CheckpointedSequential(blocks, segments)
    besides = [tensor for block in blocks for tensor in (block.weight, *block.buffers())]
    model.train(not evaluates)
    return _bytes_alive(model, x.clone().requires_grad_(requires_grad), besides=besides)[1]


def module(student: Any, *, x: Tensor, weights: Sequence[Tensor]) -> Module:
    """A CheckpointedSequential of blocks and a dropout: what it registers, and what eval() does."""
    blocks: list[nn.Module] = [Block(i, weight) for i, weight in enumerate(weights)]
    blocks.append(nn.Dropout(0.9))
    model = student.activation_checkpointing.CheckpointedSequential(blocks, 2)
    found = list(model.parameters())
    model.eval()
    output, training = model(x), [block.training for block in blocks]
    model.train()
    blocks[-1].eval()
    another = copy.deepcopy(model)
    for value in another.state_dict().values():
        value.zero_()
    return {
        "parameters_are_the_layers": [id(p) for p in found]
        == [id(p) for block in blocks for p in block.parameters()],
        "state": len(model.state_dict()),
        "some_train": any(training),
        "output_in_eval": _result(output),
        "output_with_one_in_eval": _result(model(x)),
        "output_of_zeros": _result(another(x)),
    }


def run_layers(
    student: Any,
    *,
    x: Tensor,
    count: int,
    segments: int,
    grad_enabled: bool = True,
) -> Any:
    """The output of a CheckpointedSequential of `count` layers, each of which doubles its input.

    The layers are a tuple.
    """
    layers = tuple(_Double() for _ in range(count))
    model = student.activation_checkpointing.CheckpointedSequential(layers, segments)
    with torch.set_grad_enabled(grad_enabled):
        return _result(model(x))


def run_each(student: Any, *, xs: Sequence[Tensor], count: int, segments: int) -> list[list[Any]]:
    """The outputs for each of these inputs, with gradients and without; see `run_layers`."""
    return [
        [
            run_layers(student, x=x, count=count, segments=segments, grad_enabled=enabled)
            for enabled in (True, False)
        ]
        for x in xs
    ]


class _Double(nn.Module):
    """2x, as a floating-point number."""

    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * x


# --- helpers


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every floating-point storage with more than one number, and keeps none alive.

    A storage is recorded if an operation creates it or shows it.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            # RNG states are bytes, and a single number may exist only to require a gradient.
            if isinstance(x, Tensor) and x.is_floating_point() and x.untyped_storage().nbytes() > 8:
                weak = _weakly(x)
                self.storages[weak.cdata] = weak, x.untyped_storage().nbytes()
        return result


def _bytes_alive(fn: Wrap, *inputs: Any, besides: Sequence[Tensor]) -> tuple[Any, int]:
    """The result of fn, and the bytes alive after the call.

    The bytes of the arguments, of the result and of `besides` are not counted. An input that is not
    a tensor is a function for fn.
    """
    with _Watch() as watch:
        output = fn(*inputs)
    gc.collect()
    others = [
        *(x for x in inputs if isinstance(x, Tensor)),
        *besides,
        *([output] if isinstance(output, Tensor) else []),
    ]
    left_out = {_weakly(x).cdata for x in others}
    kept = sum(
        n
        for address, (weak, n) in watch.storages.items()
        if address not in left_out and not weak.expired()
    )
    return output, kept


def _backward(output: Any, upstream: Tensor | None = None) -> None:
    """Run the backward pass of a result, if it has one.

    A hook passes `upstream` on, because the argument of output.backward imports sympy for half a
    second, also in the grader's own process.
    """
    if isinstance(output, Tensor) and output.requires_grad:
        output.register_hook(  # type: ignore[no-untyped-call]
            lambda ones: torch.ones_like(ones) if upstream is None else upstream
        )
        torch.autograd.backward(output.sum())


def _result(output: Any) -> Any:
    """A copy of a result at the time of its return, whatever its type."""
    return output.detach().clone() if isinstance(output, Tensor) else output


def _weakly(x: Tensor) -> StorageWeakRef:
    return StorageWeakRef(x.untyped_storage())  # type: ignore[no-untyped-call]


def _fresh(x: Tensor) -> Tensor:
    return torch.empty_like(x).copy_(x)


def _copy(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().clone()
