"""Probes for einops_reshaping.py: gradients exist only where the function ran."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor


class Gradients(TypedDict):
    """What `gradients` returns."""

    output: Any
    gradients: list[Tensor | None]


def gradients(student: Any, *, function: str, args: Sequence[Any], upstream: Tensor) -> Gradients:
    """A function's output, and for each of its floating-point tensors the gradient that comes back for `upstream`.

    The function is given copies that require gradients and are no leaves, so that it may work in place on them. A gradient
    is None where none arrives, and where the output does not fit `upstream`.
    """
    leaves = [
        x.clone().requires_grad_(x.is_floating_point()) if isinstance(x, Tensor) else x
        for x in args
    ]
    output = getattr(student.einops_reshaping, function)(
        *(x.clone() if isinstance(x, Tensor) else x for x in leaves)
    )
    fits = type(output) is Tensor and (output.shape, output.dtype) == (
        upstream.shape,
        upstream.dtype,
    )
    if fits and output.requires_grad:
        torch.autograd.backward(output, upstream)
    return {
        "output": output.detach() if isinstance(output, Tensor) else output,
        "gradients": [x.grad for x in leaves if isinstance(x, Tensor) and x.is_floating_point()],
    }
