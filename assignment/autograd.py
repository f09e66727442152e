"""Chapter 6: backward passes by hand, a numerical check of gradients, and uses of autograd.

A backward pass goes through a program from its last step to its first. Each step receives the
upstream gradient G, which is the gradient of the loss with respect to the step's output, and
returns the gradients with respect to its inputs. A tensor that is used in several places gets the
sum of the gradients from all of these places. Each gradient has the shape and dtype of its tensor.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Scale(torch.autograd.Function):
    """Multiply each feature by its own gain, with a backward pass by hand: a solved example.

    With the upstream gradient g, the gradient of x is g · gain. A gain is used once per vector of
    x, so its gradient is the sum of g · x over all these vectors.

    Example:
        x = [[1, 2], [3, 4]], gain = [10, 20] and g all ones: [[10, 20], [10, 20]] for x, and
        [1 + 3, 2 + 4] for gain.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "... features"], gain: Float[Tensor, "features"]
    ) -> Float[Tensor, "... features"]:
        """Return x · gain. `Scale.apply(x, gain)` calls this method."""
        ctx.save_for_backward(x, gain)
        return x * gain

    @staticmethod
    def backward(
        ctx: Any, grad_output: Float[Tensor, "... features"]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of x and gain, or None for a gradient that is not needed."""
        x, gain = ctx.saved_tensors
        x_needs_it, gain_needs_it = ctx.needs_input_grad
        grad_x = grad_output * gain if x_needs_it else None
        grad_gain = (grad_output * x).reshape(-1, len(gain)).sum(dim=0) if gain_needs_it else None
        return grad_x, grad_gain


def linear_backward(
    x: Float[Tensor, "... i"],
    weight: Float[Tensor, "o i"],
    grad_output: Float[Tensor, "... o"],
    *,
    need_input_grad: bool = True,
) -> tuple[Float[Tensor, "... i"] | None, Float[Tensor, "o i"]]:
    """The gradients of a linear layer, y = x Wᵀ, without autograd.

    x gets G W. W gets Gᵀ x, summed over all leading dimensions.

    Args:
        x: Inputs, with any leading dimensions or none.
        weight, grad_output: W and G.
        need_input_grad: If False, do not compute x's gradient, and return None for it.

    Example:
        x = [[1, 2]], W = [[3, 4], [5, 6]], G = [[1, 10]]: [[53, 64]] and [[1, 2], [10, 20]].

    Handout §6.1 · `python -m assignment check autograd`
    """
    # TODO(autograd): about 2 lines.
    raise NotImplementedError("autograd: see handout §6.1")


def mlp_backward(
    x: Float[Tensor, "b i"],
    w1: Float[Tensor, "h i"],
    w2: Float[Tensor, "o h"],
    grad_output: Float[Tensor, "b o"],
) -> tuple[Float[Tensor, "h i"], Float[Tensor, "o h"]]:
    """The gradients of both weights of y = relu(x W₁ᵀ) W₂ᵀ, without autograd.

    relu passes the gradient only where its input is above 0.

    Args:
        x: A batch of inputs.
        w1, w2, grad_output: W₁, W₂ and G.

    Example:
        x = [[1]], W₁ = [[2], [-3]], W₂ = [[5, 7]], G = [[10]]: W₁ gets [[50], [0]], W₂ [[20, 0]].

    Handout §6.1
    """
    # TODO(autograd): about 3 lines.
    raise NotImplementedError("autograd: see handout §6.1")


class MatMul(torch.autograd.Function):
    """`MatMul.apply(a, b)` is torch.matmul(a, b) with a backward pass by hand.

    a gets G bᵀ and b gets aᵀ G, where ᵀ swaps the last two dimensions. The leading dimensions
    broadcast, and an operand that was broadcast gets the sum over all its uses, from `backward` or
    from autograd.

    Example:
        a = [[1, 2]], b = [[3], [4]] and G = [[10]]: [[30, 40]] for a and [[10], [20]] for b.

    Handout §6.1
    """

    @staticmethod
    def forward(
        ctx: Any, a: Float[Tensor, "... m k"], b: Float[Tensor, "... k n"]
    ) -> Float[Tensor, "... m n"]:
        """Return a @ b.

        Use save_for_backward: it raises a RuntimeError if an operand has changed in place since.
        """
        # TODO(autograd): about 2 lines.
        raise NotImplementedError("autograd: see handout §6.1")

    @staticmethod
    def backward(
        ctx: Any, grad_output: Float[Tensor, "... m n"]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return both gradients.

        Where `ctx.needs_input_grad` is False, return None, and do not compute that gradient.
        """
        # TODO(autograd): about 4 lines.
        raise NotImplementedError("autograd: see handout §6.1")


def numerical_gradient(
    f: Callable[..., Tensor], inputs: Sequence[Tensor], eps: float = 1e-6
) -> tuple[Tensor, ...]:
    """The gradient of a scalar function by central differences, without autograd.

    For each element of each input:
    (f(… + eps …) - f(… - eps …)) / (2 · eps).

    Args:
        f: Computes a scalar from its arguments alone.
        inputs: Floating-point tensors without shared memory, perhaps parameters; leave every bit
            as it was.
        eps: The size of the step.

    Example:
        f(x) = x³ at 2 with eps 0.5: (2.5³ - 1.5³) / 1 = 12.25.

    Handout §6.1
    """
    # TODO(autograd): about 13 lines.
    raise NotImplementedError("autograd: see handout §6.1")


def intermediate_gradients(module: nn.Module, x: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """The gradient of sum(module(x)) with respect to the output of each named submodule.

    The module may be frozen, and the next layer may work in place. Leave every .grad and
    requires_grad as it was and no hook behind, even after an error.

    Args:
        module, x: module(x) is a tensor.
        names: As in `module.named_modules()`, such as "blocks.0.fc". Each submodule runs once.

    Raises:
        ValueError, KeyError or AttributeError: A name is unknown.

    Example:
        In Sequential(Linear, ReLU), "1" gets all ones, "0" gets 1 where its output is above 0.

    Handout §6.1
    """
    # TODO(autograd): about 12 lines.
    raise NotImplementedError("autograd: see handout §6.1")


def accumulate_gradients(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    micro_batch_size: int,
) -> float:
    """Run the backward pass of a large batch in chunks that fit into memory.

    Return loss_fn(model(x), y), and add to each .grad what one backward pass of it would add. Each
    row has the same weight, also in a shorter last chunk. Free each chunk's graph before the next
    chunk runs.

    Args:
        model: Treats each row alone.
        loss_fn: The mean loss over the rows.
        x, y: Inputs and targets, one row per example.
        micro_batch_size: Rows per chunk, perhaps more than there are.

    Example:
        Rows with losses 1, 2 and 6 in chunks of two: 1.5 · 2/3 + 6 · 1/3 = 3.

    Handout §6.1
    """
    # TODO(autograd): about 7 lines.
    raise NotImplementedError("autograd: see handout §6.1")
