"""Probes for einops_reshaping.py: gradients exist only in the process that ran the function."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor


class Gradients(TypedDict):
    """The result of `gradients`."""

    output: Any
    without_gradients: Any
    gradients: list[Tensor | None]


def gradients(student: Any, *, function: str, args: Sequence[Any], upstream: Tensor) -> Gradients:
    """A function's output with and without gradients, and the gradients of its tensors.

    These are the gradients of the floating-point tensors for `upstream`.

    The function gets copies that require gradients and are not leaves, so it may change them in
    place. A gradient is None if none arrives, or if the output does not fit `upstream`.
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
    with torch.no_grad():
        again = getattr(student.einops_reshaping, function)(
            *(x.clone() if isinstance(x, Tensor) else x for x in leaves)
        )
    return {
        "output": output.detach() if isinstance(output, Tensor) else output,
        "without_gradients": again,
        "gradients": [x.grad for x in leaves if isinstance(x, Tensor) and x.is_floating_point()],
    }
