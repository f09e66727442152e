"""Chapter 6: backward passes by hand, a numerical check of gradients, and uses of autograd.

A backward pass goes through a program from its last step to its first. Each step receives the
upstream gradient, which is the gradient of the loss with respect to the step's output, and returns
the gradients with respect to its inputs. A tensor that is used in several places gets the sum of
the gradients from all of these places.
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
    """The gradients of a linear layer, y = x Wᵀ, by hand and without autograd.

    With the upstream gradient G, the gradient of x is G W. The gradient of W is Gᵀ x, summed over
    all leading dimensions, because every vector of x goes through the same weight. The function
    must also work under torch.inference_mode(), where autograd records nothing.

    Args:
        x: Inputs, with any number of leading dimensions, including none.
        weight: The layer's weight, with at least one row and one column.
        grad_output: Gradient of the loss with respect to y.
        need_input_grad: If False, return None for the gradient of x and do not compute it. The
            first layer of a model needs no gradient of its data.

    Returns:
        The gradient of x (or None) and the gradient of the weight.

    Raises:
        ValueError: `grad_output` does not have the shape of y.
            (If torch raises its own error for this, that error is just as good.)

    Example:
        x = [[1, 2]], W = [[3, 4], [5, 6]] and G = [[1, 10]]:
        G W = [[53, 64]] and Gᵀ x = [[1, 2], [10, 20]].

    Handout §6.1 · `python -m assignment check autograd`
    """
    # BEGIN SOLUTION(autograd)
    out_features, in_features = weight.shape
    if grad_output.shape != (*x.shape[:-1], out_features):
        raise ValueError(
            f"grad_output has shape {tuple(grad_output.shape)}, not {(*x.shape[:-1], out_features)}"
        )
    grad_x = grad_output @ weight if need_input_grad else None
    return grad_x, grad_output.reshape(-1, out_features).T @ x.reshape(-1, in_features)
    # END SOLUTION


def mlp_backward(
    x: Float[Tensor, "b i"],
    w1: Float[Tensor, "h i"],
    w2: Float[Tensor, "o h"],
    grad_output: Float[Tensor, "b o"],
) -> tuple[Float[Tensor, "h i"], Float[Tensor, "o h"]]:
    """The gradients of both weights of y = relu(x W₁ᵀ) W₂ᵀ, by hand and without autograd.

    Run the forward pass again to compute the values that the backward pass needs. As in torch, relu
    passes the gradient on where its input is above 0, and passes on 0 where its input is 0 or
    below. The function must also work under torch.inference_mode().

    Args:
        x: A batch of inputs.
        w1: Weight of the first layer.
        w2: Weight of the second layer.
        grad_output: Gradient of the loss with respect to y. All inputs are finite, and so are all
            products of them that occur.

    Returns:
        The gradients of w1 and of w2.

    Example:
        x = [[1]], w1 = [[2], [-3]], w2 = [[5, 7]] and a gradient of [[10]]: the hidden units are
        relu(2) = 2 and relu(-3) = 0, so w2 gets [[20, 0]] and w1 gets [[10 · 5 · 1], [0]].

    Handout §6.1 · `python -m assignment check autograd`
    """
    # BEGIN SOLUTION(autograd)
    hidden = (x @ w1.T).relu()
    grad_hidden = (grad_output @ w2) * (hidden > 0)
    return grad_hidden.T @ x, grad_output.T @ hidden
    # END SOLUTION


class MatMul(torch.autograd.Function):
    """a @ b with a backward pass by hand: `MatMul.apply(a, b)` replaces `torch.matmul(a, b)`.

    With the upstream gradient G, the gradient of a is G bᵀ and the gradient of b is aᵀ G, where ᵀ
    swaps the last two dimensions. An operand that was broadcast was used many times, so its
    gradient is the sum over these uses and has the operand's own shape.

    Operands have two or more dimensions (you need not support vectors), and their leading
    dimensions broadcast as in torch.matmul. The size k is at least 1. First derivatives are enough.

    Example:
        a = [[1, 2]], b = [[3], [4]] and G = [[10]]: [[30, 40]] for a and [[10], [20]] for b.

    Handout §6.1 · `python -m assignment check autograd`
    """

    @staticmethod
    def forward(
        ctx: Any, a: Float[Tensor, "... m k"], b: Float[Tensor, "... k n"]
    ) -> Float[Tensor, "... m n"]:
        """Return a @ b and save what the backward pass needs.

        Args:
            ctx: The context that autograd passes from here to `backward`. If an operand that a
                gradient needs is changed in place in between, the backward pass must raise torch's
                RuntimeError, as with torch.matmul, instead of computing with the changed numbers.
            a: The left operand.
            b: The right operand.
        """
        # BEGIN SOLUTION(autograd)
        ctx.save_for_backward(a, b)
        return a @ b
        # END SOLUTION

    @staticmethod
    def backward(
        ctx: Any, grad_output: Float[Tensor, "... m n"]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of a and b. Return None for a gradient that is not needed.

        A gradient that is not needed must not be computed either. If a gradient still has the shape
        that its operand was broadcast to, autograd itself sums over the broadcast dimensions.

        Args:
            ctx: The context from `forward`. Its `needs_input_grad` tells which
                gradients are needed.
            grad_output: Gradient of the loss with respect to the product. It need not
                be contiguous.
        """
        # BEGIN SOLUTION(autograd)
        a, b = ctx.saved_tensors
        a_needs_it, b_needs_it = ctx.needs_input_grad
        grad_a = (grad_output @ b.mT).sum_to_size(a.shape) if a_needs_it else None
        grad_b = (a.mT @ grad_output).sum_to_size(b.shape) if b_needs_it else None
        return grad_a, grad_b
        # END SOLUTION


def numerical_gradient(
    f: Callable[..., Tensor], inputs: Sequence[Tensor], eps: float = 1e-6
) -> tuple[Tensor, ...]:
    """The gradient of a scalar function by central differences, without autograd.

    For each element of each input, with all other elements unchanged:
    (f(… + eps …) - f(… - eps …)) / (2 · eps).

    Args:
        f: A function that takes as many tensors as there are inputs and returns a scalar.
        inputs: Floating-point tensors of any shapes and strides, with or without requires_grad.
            When the function returns, they are bit for bit unchanged, and gradients are enabled
            or not as before.
        eps: The size of the step.

    Returns:
        One gradient per input, with that input's shape and dtype.

    Example:
        f(x) = x³ at 2 with eps 0.5: (2.5³ - 1.5³) / 1 = 12.25, which is 3 · 2² + 0.5².

    Handout §6.1 · `python -m assignment check autograd`
    """
    # BEGIN SOLUTION(autograd)
    points = [x.detach().clone(memory_format=torch.contiguous_format) for x in inputs]
    gradients = []
    for point in points:
        elements, slopes = point.view(-1), []
        for i, value in enumerate(elements.tolist()):
            elements[i] = value + eps
            above = f(*points).item()
            elements[i] = value - eps
            below = f(*points).item()
            elements[i] = value
            slopes.append((above - below) / (2 * eps))
        gradients.append(point.new_tensor(slopes).view(point.shape))
    return tuple(gradients)
    # END SOLUTION


def intermediate_gradients(module: nn.Module, x: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """The gradient of sum(module(x)) with respect to the output of each named submodule.

    Apart from what one forward pass of the module changes, such as running statistics, the call has
    no lasting effect: it leaves no hook behind and does not change any .grad (of x or of a
    parameter), any requires_grad, the mode of a module, or whether gradients are enabled. The
    function must also work under torch.no_grad(), for a module whose parameters need no gradient,
    and if the next layer changes a submodule's output in place.

    Args:
        module: A module that returns a tensor.
        x: The module's input.
        names: Names of one or more submodules as in `module.named_modules()`, such as
            "blocks.0.fc". Each of these submodules runs once and returns a tensor, but not its
            unchanged input.

    Returns:
        For each name, a gradient with the shape of that submodule's output. It is all zeros if the
        module's result does not depend on that output.

    Raises:
        ValueError: One of the `names` is not the name of a submodule that runs.
            (torch's AttributeError or a KeyError is just as good.)

    Example:
        In Sequential(Linear, ReLU), the gradient of the Linear's output, "0", is 1 where the output
        is above 0 and 0 elsewhere. The gradient for "1" is all ones.

    Handout §6.1 · `python -m assignment check autograd`
    """
    # BEGIN SOLUTION(autograd)
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., Tensor]:
        def hook(module: nn.Module, args: object, output: Tensor) -> Tensor:
            outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs[name].clone()  # an in-place layer changes only the copy

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for name, submodule in module.named_modules():
            if name in names:
                hooks.enter_context(submodule.register_forward_hook(keep(name)))
        total = module(x).sum()
    if missing := [name for name in names if name not in outputs]:
        raise ValueError(f"names: no submodule runs as {', '.join(missing)}")
    if not total.requires_grad:  # it depends on none of the outputs
        return {name: torch.zeros_like(output) for name, output in outputs.items()}
    gradients = torch.autograd.grad(total, list(outputs.values()), materialize_grads=True)
    return dict(zip(outputs, gradients, strict=True))
    # END SOLUTION


def accumulate_gradients(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    micro_batch_size: int,
) -> float:
    """Run the backward pass of a large batch in chunks that fit into memory.

    Up to rounding, add to each parameter's .grad what one backward pass of loss_fn(model(x), y)
    would add. A .grad that it would leave at None, such as that of an unused parameter, stays None.
    The chunks have micro_batch_size rows each; the last chunk may be shorter, and then it has less
    weight. Free the memory for one chunk's backward pass before the next chunk runs.

    Args:
        model: Takes rows of x. No row of its output depends on any other row of its input.
        loss_fn: Takes an output and a target, and returns the mean loss over the rows. Each row has
            the same weight.
        x: Inputs, one row per example; there is at least one row.
        y: Targets, one row per example.
        micro_batch_size: The largest number of rows per call of the model, at least 1. It may
            exceed the number of rows of x.

    Returns:
        loss_fn(model(x), y), up to rounding.

    Raises:
        ValueError: `x` and `y` have different numbers of rows.

    Example:
        Three rows with losses 1, 2 and 6, in chunks of two: the means of the chunks are 1.5 and 6,
        and the mean of all rows is 1.5 · 2/3 + 6 · 1/3 = 3, not 3.75.

    Handout §6.1 · `python -m assignment check autograd`
    """
    # BEGIN SOLUTION(autograd)
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}")
    mean = 0.0
    for start in range(0, len(x), micro_batch_size):
        rows = slice(start, start + micro_batch_size)
        loss = loss_fn(model(x[rows]), y[rows]) * (len(x[rows]) / len(x))
        loss.backward()
        mean += loss.item()
    return mean
    # END SOLUTION
