"""Probes for activation_checkpointing.py: graphs, gradients and memory stay in their process.

The memory that a graph keeps is measured here without the student's own count. Every storage that
an operation creates during the forward pass is watched, and those that are still alive afterwards
count as kept, no matter which object refers to them.
"""

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


# --- saved_activation_bytes

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
    "sin of a parameter": lambda x, y: nn.Parameter(x.detach().clone()).sin(),
}


def _saved_bytes(
    student: Any,
    *,
    save: str,
    x: Tensor,
    y: Tensor,
    exclude: Sequence[str] | None = None,
    as_list: bool = False,
    of_data: bool = False,
    grad_enabled: bool = True,
) -> Any:
    """saved_activation_bytes of one of SAVES.

    `exclude` names "x", "y" or views of them, and is passed as a generator or a list. With
    `of_data`, x and y require no gradient.
    """
    # A fresh copy: a tensor from another process may be a view of a storage of another size.
    x, y = (torch.empty_like(t).copy_(t).requires_grad_(not of_data) for t in (x, y))
    named = {"x": x, "y": y, "a row of x": x.detach()[1:2], "x transposed": x.T}
    options: dict[str, Any] = {}
    if exclude is not None:
        given = (named[name] for name in exclude)
        options["exclude"] = list(given) if as_list else given
    with torch.set_grad_enabled(grad_enabled):
        count = student.activation_checkpointing.saved_activation_bytes
        return count(lambda: SAVES[save](x, y), **options)


def saved_bytes(student: Any, *, calls: Sequence[dict[str, Any]]) -> list[Any]:
    """The results of `_saved_bytes` for several calls."""
    return [_saved_bytes(student, **call) for call in calls]


class Counted(TypedDict):
    """The result of `calls_to_count`; `calls` is the number of calls of fn."""

    result: Any
    calls: int
    leaves_gradients: bool


def calls_to_count(student: Any, *, x: Tensor) -> Counted:
    """saved_activation_bytes of a sine, and what it does with the function."""
    leaf = x.clone().requires_grad_()
    calls = 0

    def fn() -> Tensor:
        nonlocal calls
        calls += 1
        return leaf.sin()

    result = student.activation_checkpointing.saved_activation_bytes(fn)
    return {"result": result, "calls": calls, "leaves_gradients": leaf.grad is not None}


def saved_bytes_of_layers(
    student: Any, *, activation: str, x: Tensor, layers: int, exclude: bool
) -> Any:
    """saved_activation_bytes of a stack of bias-free linear layers, on x's device.

    Each layer is followed by an activation function. `exclude` leaves the parameters out.
    """
    model = nn.Sequential()
    for _ in range(layers):
        layer = nn.Linear(x.shape[1], x.shape[1], bias=False, device=x.device)
        model.append(layer).append(getattr(nn, activation)())
    leaf = torch.empty_like(x).requires_grad_()
    excluded = model.parameters() if exclude else ()
    return student.activation_checkpointing.saved_activation_bytes(lambda: model(leaf), excluded)


# --- checkpoint


class Gradients(TypedDict):
    """An output and its gradients."""

    output: Any
    input_gradients: list[Tensor | None]
    parameter_gradients: list[Tensor | None]


class GradientsAndCalls(Gradients):
    calls: int


def gradients(student: Any, **inputs: Any) -> GradientsAndCalls:
    """The same as `gradients_of` for the student's checkpoint."""
    return gradients_of(student.activation_checkpointing.checkpoint, **inputs)


def gradients_of(
    wrap: Wrap,
    *,
    x: Tensor,
    y: Tensor,
    ids: Tensor,
    parameters: Sequence[Tensor],
    upstream: Tensor,
    requires_grad: tuple[bool, bool],
    nested: bool,
) -> GradientsAndCalls:
    """Output and gradients of wrap(fn, …), where x is a leaf and y is an operation's result.

    Args:
        wrap: A function that calls its first argument with the others in its own way.
        x: The first input, which is also the last one.
        y: A leaf whose sine is the second input.
        parameters: Two matrices that the function uses from its enclosing scope.
        upstream: The output's gradient.
        requires_grad: Whether x and whether y requires a gradient.
        nested: Whether the function calls one part of itself under `wrap`.
    """
    leaves = [t.clone().requires_grad_(need) for t, need in zip((x, y), requires_grad, strict=True)]
    first, second = weights = [nn.Parameter(p.clone()) for p in parameters]
    calls = 0

    def inner(z: Tensor) -> Tensor:
        return (z @ first).tanh().exp()

    def fn(a: Tensor, b: Tensor, rows: Tensor, c: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        hidden: Tensor = wrap(inner, a.sin()) if nested else inner(a.sin())
        return (hidden @ second) * b[rows] + c.cos().sum()

    output = wrap(fn, leaves[0], leaves[1].sin(), ids, leaves[0])
    _backward(output, upstream)
    return {
        "calls": calls,
        "output": _result(output),
        "input_gradients": [_copy(leaf.grad) for leaf in leaves],
        "parameter_gradients": [_copy(weight.grad) for weight in weights],
    }


class Calls(TypedDict):
    """The result of `calls`: the number of calls and their inputs, at three moments."""

    after_forward: int
    after_backward: int
    inputs: list[Tensor]


def calls(student: Any, *, x: Tensor) -> Calls:
    """The number of calls that checkpoint makes of its function, and their inputs."""
    leaf = x.clone().requires_grad_()
    seen: list[Tensor] = []

    def fn(z: Tensor) -> Tensor:
        seen.append(z.detach().clone())
        return z.sin().exp()

    output = student.activation_checkpointing.checkpoint(fn, leaf)
    after_forward = len(seen)
    _backward(output)
    return {"after_forward": after_forward, "after_backward": len(seen), "inputs": seen}


class Dropped(TypedDict):
    """The result of `dropped`; `kept` are the entries that a plain run keeps."""

    output: Any
    kept: Tensor
    gradient: Tensor | None
    random_state_is_as_before: bool
    calls: int


def dropped(student: Any, *, x: Tensor, another: bool) -> Dropped:
    """checkpoint of a dropout, with random numbers drawn before it and before the backward pass.

    Before the backward pass the function may have `another` checkpoint, of the same fn.
    """
    leaf = x.clone().requires_grad_()
    checkpoint = student.activation_checkpointing.checkpoint
    calls = 0

    def fn(z: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return F.dropout(z.tanh(), 0.5)

    torch.rand(7)
    start = torch.get_rng_state()
    kept = F.dropout(torch.ones_like(x), 0.5) != 0
    torch.set_rng_state(start)
    output = checkpoint(fn, leaf)
    if another:
        checkpoint(fn, leaf)
    torch.rand(3)
    before = torch.get_rng_state()
    _backward(output)
    return {
        "output": _result(output),
        "kept": kept,
        "gradient": _copy(leaf.grad),
        "random_state_is_as_before": torch.equal(before, torch.get_rng_state()),
        "calls": calls,
    }


class WithoutGradients(TypedDict):
    output: Any
    requires_grad: bool
    calls: int


def without_gradients(student: Any, *, x: Tensor, weight: Tensor) -> WithoutGradients:
    """checkpoint with gradients disabled."""
    parameter, leaf = nn.Parameter(weight.clone()), x.clone().requires_grad_()
    count = 0

    def fn(z: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return z @ parameter

    with torch.no_grad():
        output = student.activation_checkpointing.checkpoint(fn, leaf)
    requires_grad = isinstance(output, Tensor) and output.requires_grad
    return {"output": _result(output), "requires_grad": requires_grad, "calls": count}


def autocast_dtypes(
    student: Any, *, x: Tensor, weight: Tensor, dtype: torch.dtype, forward: bool, backward: bool
) -> list[torch.dtype]:
    """The dtype of a product in each call of a checkpointed function.

    Autocast to `dtype` is on in the forward pass, and to bfloat16 in the backward pass, or not.
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


class Kept(TypedDict):
    output: Any
    requires_grad: bool
    bytes: int


def bytes_kept(student: Any, *, x: Tensor, weight: Tensor) -> Kept:
    """Output of checkpoint(fn, x, y), and the bytes alive after the forward pass.

    Inputs, parameters and output are not counted.
    """
    parameter, leaf = nn.Parameter(weight.clone()), x.clone()
    other = leaf.sin().requires_grad_()
    leaf.requires_grad_()

    def fn(a: Tensor, b: Tensor) -> Tensor:
        return F.silu(F.gelu(a @ parameter) * b.sin() @ parameter).sin()

    checkpoint = student.activation_checkpointing.checkpoint
    output, alive = _bytes_alive(checkpoint, fn, leaf, other, besides=[parameter])
    requires_grad = isinstance(output, Tensor) and output.requires_grad
    return {"output": _result(output), "requires_grad": requires_grad, "bytes": alive}


# --- CheckpointedSequential


class Block(nn.Module):
    """sin(x W + b), where b is a buffer."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.bias = nn.Buffer(weight[0].clone())

    def forward(self, x: Tensor) -> Any:
        """Compute one product and one sine, each of which keeps its input."""
        return (x @ self.weight + self.bias).sin()


def sequential_gradients(student: Any, *, segments: int, **inputs: Any) -> Gradients:
    """Gradients of a CheckpointedSequential; see `sequential_gradients_of`."""
    make = student.activation_checkpointing.CheckpointedSequential
    return sequential_gradients_of(lambda blocks: make(blocks, segments), **inputs)


def segments_by_hand(student: Any, *, segments: int, **inputs: Any) -> Gradients:
    """The gradients when the layers are split into equal segments, each one call of checkpoint.

    See `sequential_gradients_of`.
    """
    checkpoint = student.activation_checkpointing.checkpoint

    def make(blocks: list[nn.Module]) -> Wrap:
        length = len(blocks) // segments
        parts = [nn.Sequential(*blocks[i : i + length]) for i in range(0, len(blocks), length)]
        return lambda x: functools.reduce(lambda y, part: checkpoint(part, y), parts, x)

    return sequential_gradients_of(make, **inputs)


def sequential_gradients_of(
    make: Callable[[list[nn.Module]], Wrap],
    *,
    x: Tensor,
    weights: Sequence[Tensor],
    order: Sequence[int],
    upstream: Tensor,
    frozen: int = 0,
) -> Gradients:
    """Output and gradients of blocks in sequence, in the order of these numbers.

    A block may come twice. With `frozen`, the input and this many first blocks require no gradient.
    """
    blocks = [Block(weight) for weight in weights]
    for block in blocks[:frozen]:
        block.requires_grad_(False)
    leaf = x.clone().requires_grad_(not frozen)
    output = make([blocks[i] for i in order])(leaf)
    _backward(output, upstream)
    return {
        "output": _result(output),
        "input_gradients": [_copy(leaf.grad)],
        "parameter_gradients": [_copy(block.weight.grad) for block in blocks],
    }


class _Noted(nn.Module):
    """The sine; the layer notes its number whenever it runs."""

    def __init__(self, number: int, notes: bytearray) -> None:
        super().__init__()
        self.number, self.notes = number, notes

    def forward(self, x: Tensor) -> Tensor:
        self.notes.append(self.number)
        return x.sin()


def layers(student: Any, *, pairs: Sequence[tuple[int, int]]) -> list[tuple[bytes, bytes]]:
    """For each number of layers and of segments: the layers that run forward and backward."""
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
    student: Any, *, x: Tensor, weight: Tensor, count: int, segments: int, tunes: bool
) -> int:
    """Bytes alive after the forward pass of a CheckpointedSequential.

    Its input, parameters and output are not counted. If it `tunes`, the model is in eval mode, and
    its input requires no gradient.
    """
    blocks = [Block(weight) for _ in range(count)]
    model = student.activation_checkpointing.CheckpointedSequential(blocks, segments)
    model.train(not tunes)
    besides = [tensor for block in blocks for tensor in (block.weight, *block.buffers())]
    return _bytes_alive(model, x.clone().requires_grad_(not tunes), besides=besides)[1]


class Module(TypedDict):
    """The result of `module`; `state` is the number of tensors in the state_dict."""

    parameters_are_the_layers: bool
    state: int
    some_train: bool
    output: Any


def module(student: Any, *, x: Tensor, weights: Sequence[Tensor]) -> Module:
    """A CheckpointedSequential of blocks and a dropout, in eval mode."""
    blocks: list[nn.Module] = [Block(weight) for weight in weights]
    blocks.append(nn.Dropout(0.9))
    model = student.activation_checkpointing.CheckpointedSequential(blocks, 2).eval()
    own = {id(p) for block in blocks for p in block.parameters()}
    return {
        "parameters_are_the_layers": {id(p) for p in model.parameters()} == own,
        "state": len(model.state_dict()),
        "some_train": any(block.training for block in blocks),
        "output": _result(model(x)),
    }


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
    others = (*inputs, *besides, output)
    left_out = {_weakly(x).cdata for x in others if isinstance(x, Tensor)}
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


def _copy(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().clone()
