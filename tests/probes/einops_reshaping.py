"""Probes for einops_reshaping.py: gradients exist only in the process that ran the function."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def gradients(
    student: Any, *, function: str, args: Sequence[Any], upstream: Tensor
) -> list[Tensor | None]:
    """The gradients of a function's floating-point tensors for `upstream`.

    A gradient is None if none arrives, or if the output does not fit `upstream`.
    """
    leaves = [x.clone() if isinstance(x, Tensor) else x for x in args]
    required = [x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()]
    for x in required:
        x.requires_grad_()
    output = getattr(student.einops_reshaping, function)(*leaves)
    if isinstance(output, Tensor) and output.shape == upstream.shape and output.requires_grad:
        torch.autograd.backward(output, upstream)
    return [x.grad for x in required]
