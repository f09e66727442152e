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
    """The bytes that autograd keeps for the backward pass of fn(), counting each storage once.

    Count the tensors that operations save while fn runs, as
    torch.autograd.graph.saved_tensors_hooks shows them. Count a storage once even if several of
    these tensors share it, and count all of it even if only a small view of it is saved.

    Args:
        fn: A function to call once. Its result is not needed afterwards. fn itself may
            compute gradients; what this frees counts, too.
        exclude: Tensors whose storages are not counted, even if a view of them is saved: for
            example the parameters, which are in memory anyway, or the input. Any iterable,
            including a generator.

    Example:
        x has 6 float32 elements and requires a gradient. For x.exp(), autograd keeps the result:
        24 bytes. For x.sin() + x.cos() it keeps x: 24 bytes, or 0 bytes with exclude=[x].

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
    """Compute fn(*inputs) but keep only the inputs: the backward pass calls fn again.

    The output is the same as that of fn(*inputs). So are the gradients of the inputs that require
    one and of the parameters that fn uses, even if no input requires a gradient. The output may
    require a gradient where that of fn does not.

    fn is called twice, once in the forward pass and once in the backward pass. The second call
    draws the same random numbers as the first (dropout drops the same entries) and runs under the
    same autocast settings. If it returns, torch's RNG state is afterwards the same as before it.
    Between the two calls, no activation inside fn is kept.

    Args:
        fn: A function or module that returns one tensor. It may use parameters that are not among
            its inputs, and it may call checkpoint itself. It does not change its inputs in place.
        inputs: Tensors, none of them complex. Inputs that require no gradient, such as token ids,
            get none.

    Returns:
        fn's result. Callers compute gradients from it with .backward(). If gradients are disabled,
        fn is called once and nothing is kept.

    Example:
        checkpoint(lambda x: x.sin().exp(), x) keeps only x for the backward pass. Without
        checkpoint, autograd keeps x for the gradient of sin, and the result for the
        gradient of exp.

    Handout §12.1 · `python -m assignment check activation_checkpointing`
    """
    # BEGIN SOLUTION(activation_checkpointing)
    return _Recompute.apply(fn, torch.tensor([], requires_grad=True), *inputs)
    # END SOLUTION


class CheckpointedSequential(nn.Module):
    """A sequence of layers in segments: only the segments' inputs are kept for the backward pass.

    The layers are split, in order, into `segments` segments whose lengths differ by at most one.
    Each segment, including the last one, runs under `checkpoint`. Outputs and gradients are the
    same as those of nn.Sequential(*layers).

    Args:
        layers: The layers; none changes its input in place. Their parameters become parameters of
            this module, each under one name in its state_dict. A layer may be listed twice; its
            parameters may then have two names. A copy.deepcopy of this module computes with its own
            parameters.
        segments: Number of segments, from 1 to the number of layers.

    Raises:
        ValueError: `segments` is more than the number of layers.

    Example:
        16 layers in 4 segments: 4 + 4 + 4 + 4. 7 layers in 3 segments: one segment, any of the
        three, has 3 layers and the others have 2. Only the inputs of the segments are kept.

    Handout §12.1 · `python -m assignment check activation_checkpointing`
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
