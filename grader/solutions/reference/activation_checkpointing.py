"""Chapter 12: what autograd keeps for the backward pass, and how to recompute it instead.

Autograd keeps the tensors that it needs to compute an operation's gradient: the factors of a
product, the input of a GELU. In a deep model these activations take more memory than the weights.
Activation checkpointing keeps only the inputs of a few segments, and runs each segment's forward
pass a second time when the backward pass reaches that segment.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Cube(torch.autograd.Function):
    """y = x³ with a backward pass by hand: a solved example.

    `forward` runs with gradients disabled and saves what the backward pass needs. `backward`
    receives dL/dy and returns one gradient per argument of `forward`, or None for an argument
    without a gradient. Call it as Cube.apply(x).

    Example:
        x = 2 with an upstream gradient of 10: y = 8, and the gradient of x is 10 · 3 · 2² = 120.
        Autograd keeps x, but neither x² nor y.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return x³ and save x."""
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        """Return the upstream gradient times 3x²."""
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * 3 * x**2


def saved_activation_bytes(fn: Callable[[], Tensor], exclude: Iterable[Tensor] = ()) -> int:
    """The bytes that autograd keeps for the backward pass of fn().

    Count the tensors that torch.autograd.graph.saved_tensors_hooks shows. A storage, even on the
    meta device, counts once and as a whole.

    Args:
        fn: Called once.
        exclude: Tensors whose storages do not count, perhaps a generator.

    Example:
        For x of 6 float32 elements with a gradient, x.sin() + x.cos() keeps x: 24 bytes, or 0
        with exclude=[x].

    Handout §12.1 · `python -m assignment check activation_checkpointing`
    """
    # BEGIN SOLUTION(activation_checkpointing)
    # Keep the storages alive until they are counted, so that no address is reused.
    kept = []

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
    """fn(*inputs), keeping only the inputs.

    `gate` requires a gradient, so that backward runs even if no input requires one.
    """

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
        if output.requires_grad:  # False if all inputs and parameters are frozen
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.grad for x in inputs)


# END SOLUTION


def checkpoint(fn: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Compute fn(*inputs), but keep only the inputs: the backward pass calls fn again.

    Output and gradients are those of fn(*inputs), also for parameters that fn uses, even if no
    input requires a gradient. The second call draws the same random numbers under the same
    autocast, and leaves torch's random state as it was. If gradients are disabled, just call fn.

    Args:
        fn: Returns one tensor. It may call checkpoint.
        inputs: Tensors, some of which may require no gradient, such as token ids.

    Example:
        checkpoint(lambda x: x.sin().exp(), x) keeps only x.

    Handout §12.1
    """
    # BEGIN SOLUTION(activation_checkpointing)
    return _Recompute.apply(fn, torch.tensor([], requires_grad=True), *inputs)
    # END SOLUTION


class CheckpointedSequential(nn.Module):
    """A sequence of layers that keeps only the inputs of its segments for the backward pass.

    The layers are split, in order, into segments whose lengths differ by at most one. Each segment,
    including the last one, runs under `checkpoint`. Outputs and gradients are those of
    nn.Sequential(*layers).

    Args:
        layers: Their parameters become this module's, each under one name in its state_dict.
        segments: Number of segments.

    Raises:
        ValueError: There are more segments than layers.

    Example:
        7 layers in 3 segments: 3, 2 and 2 layers, in any order.

    Handout §12.1
    """

    def __init__(self, layers: Sequence[nn.Module], segments: int) -> None:
        # BEGIN SOLUTION(activation_checkpointing)
        super().__init__()
        if segments > len(layers):
            raise ValueError(
                f"segments must not be more than the number of layers, {len(layers)}, "
                f"got {segments}"
            )
        self.layers = nn.ModuleList(layers)
        self.segments = segments
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Pass x through every layer."""
        # BEGIN SOLUTION(activation_checkpointing)
        n = len(self.layers)
        for i in range(self.segments):
            segment = self.layers[n * i // self.segments : n * (i + 1) // self.segments]
            x = checkpoint(nn.Sequential(*segment), x)
        return x
        # END SOLUTION
