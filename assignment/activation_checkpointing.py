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
    # TODO(activation_checkpointing): about 8 lines, plus about 35 for the problem's helpers.
    raise NotImplementedError("activation_checkpointing: see handout §12.1")


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
    # TODO(activation_checkpointing): about 1 line, plus about 35 for the problem's helpers.
    raise NotImplementedError("activation_checkpointing: see handout §12.1")


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
        # TODO(activation_checkpointing): about 8 lines, plus about 35 for the problem's helpers.
        raise NotImplementedError("activation_checkpointing: see handout §12.1")

    def forward(self, x: Tensor) -> Tensor:
        """Pass x through every layer."""
        # TODO(activation_checkpointing): about 5 lines, plus about 35 for the problem's helpers.
        raise NotImplementedError("activation_checkpointing: see handout §12.1")
