"""Chapter 12: what the forward pass keeps for the backward pass, and how to keep less of it by computing it again.

Autograd keeps the tensors from which an operation's gradient is computed: a product its factors, a GELU its input. In
a deep model these activations outgrow the weights. Activation checkpointing keeps the inputs of a few segments
alone and runs each segment's forward pass a second time when the backward pass gets there.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Cube(torch.autograd.Function):
    """y = x³ with a gradient of its own: a solved example.

    `forward` runs with gradients off and says what to keep; `backward` gets dL/dy and gives one gradient for each argument
    of `forward`, None where there is none. Call it as Cube.apply(x).

    Example:
        x = 2 with an upstream gradient of 10: y = 8, and x's gradient is 10 · 3 · 2² = 120. Kept: x, and not x² or y.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """x³; keeps x."""
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        """The upstream gradient times 3x²."""
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * 3 * x**2


def saved_activation_bytes(fn: Callable[[], Tensor], exclude: Iterable[Tensor] = ()) -> int:
    """The bytes that autograd keeps for the backward pass of fn(), each whole storage once.

    Tensors that operations save while fn runs, as torch.autograd.graph.saved_tensors_hooks shows them. Two that show one
    storage count it once, and a small view keeps its whole storage.

    Args:
        fn: Is called once; its result is not needed afterwards. It may take gradients of its own.
        exclude: Tensors whose storages are not counted, views of them neither: parameters, which are there anyway, or
            the input. Any iterable, a generator as well.

    Example:
        x of 6 float32 numbers that requires a gradient: x.exp() keeps its result, 24 bytes. x.sin() + x.cos() keeps x,
        24 bytes, or 0 with exclude=[x].

    Handout §12.1 · activation_checkpointing · `pytest -k activation_checkpointing`
    """
    # BEGIN SOLUTION(activation_checkpointing)
    kept = []  # storages, alive until they are counted, so that no address is used twice

    def pack(x: Tensor) -> Tensor:
        kept.append(x.untyped_storage())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    return sum({s._cdata: s.nbytes() for s in kept if s._cdata not in excluded}.values())
    # END SOLUTION


# BEGIN SOLUTION(activation_checkpointing)
class _Recompute(torch.autograd.Function):
    """fn(*inputs) that keeps the inputs. `gate` requires a gradient, so that backward runs where no input needs one."""

    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        ctx.fn = fn
        ctx.rng = (
            torch.get_rng_state(),
            {x.device: torch.cuda.get_rng_state(x.device) for x in inputs if x.is_cuda},
        )
        devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
        ctx.autocast = [
            (d, torch.get_autocast_dtype(d), torch.is_autocast_enabled(d)) for d in devices
        ]
        ctx.save_for_backward(*inputs)
        return fn(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        cpu, gpus = ctx.rng
        with (
            torch.random.fork_rng(list(gpus)),
            torch.enable_grad(),
            contextlib.ExitStack() as stack,
        ):
            torch.set_rng_state(cpu)
            for device, state in gpus.items():
                torch.cuda.set_rng_state(state, device)
            for autocast in ctx.autocast:
                stack.enter_context(torch.autocast(*autocast))
            output = ctx.fn(*inputs)
        if output.requires_grad:  # it does not where inputs and parameters are all frozen
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.grad for x in inputs)


# END SOLUTION


def checkpoint(fn: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """fn(*inputs), of which only the inputs are kept: backward calls fn again to get what it needs.

    Output and gradients are those of fn(*inputs) itself: of the inputs that require one, and of the parameters that fn uses,
    also where no input requires a gradient. fn is called twice, once forward and once in the backward pass. The second
    call draws the same random numbers as the first (dropout drops the same entries) and runs under the same autocast, and
    after it torch's random state is what it was before it. Between the two calls no activation inside fn is kept.

    Args:
        fn: A function or module with one tensor as its result; it may use parameters that are not among its inputs, and
            checkpoint itself.
        inputs: Tensors; those that require no gradient, token ids for instance, get none.

    Returns:
        fn's result. Gradients are asked of it with .backward(); where gradients are off, fn is called once and nothing is kept.

    Example:
        checkpoint(lambda x: x.sin().exp(), x): for backward it keeps x alone, where the function itself keeps x, for the
        sine's gradient, and its own result, for that of exp.

    Handout §12.1 · activation_checkpointing · `pytest -k activation_checkpointing`
    """
    # BEGIN SOLUTION(activation_checkpointing)
    return _Recompute.apply(fn, torch.tensor([], requires_grad=True), *inputs)
    # END SOLUTION


class CheckpointedSequential(nn.Module):
    """Layers one after the other, in segments of which only the inputs are kept for the backward pass.

    L layers are split, in their order, into `segments` segments whose lengths differ by at most one, and each segment, the
    last one too, runs under `checkpoint`. Outputs and gradients are those of nn.Sequential(*layers).

    Args:
        layers: The layers. Their parameters become this module's, each under one name in its state_dict. A layer may be
            listed twice.
        segments: How many segments, from 1 to the number of layers.

    Raises:
        ValueError: `segments` is more than there are layers.

    Example:
        16 layers in 4 segments: 4 + 4 + 4 + 4. With 7 layers in 3 segments two have 2 layers and one, whichever it is, has 3.
        Kept are the inputs of the segments.

    Handout §12.1 · activation_checkpointing · `pytest -k activation_checkpointing`
    """

    def __init__(self, layers: Sequence[nn.Module], segments: int) -> None:
        # BEGIN SOLUTION(activation_checkpointing)
        super().__init__()
        if segments > len(layers):
            raise ValueError(
                f"segments must not be more than the number of layers, {len(layers)}, got {segments}"
            )
        self.layers = nn.ModuleList(layers)
        self.segments = segments
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x through every layer."""
        # BEGIN SOLUTION(activation_checkpointing)
        n = len(self.layers)
        for i in range(self.segments):
            segment = self.layers[n * i // self.segments : n * (i + 1) // self.segments]
            x = checkpoint(nn.Sequential(*segment), x)
        return x
        # END SOLUTION
