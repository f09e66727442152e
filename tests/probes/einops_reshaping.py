"""Probes for einops_reshaping.py: gradients exist only in the process that ran the function."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from kit.student import ResultAndInputs, call_and_keep_inputs


class Gradients(TypedDict):
    """The result of `gradients`."""

    output: Any
    without_gradients: Any
    gradients: list[Tensor | None]
    alone: list[Tensor | None]
    changed: Any
    changed_copies: Any


def gradients(student: Any, *, function: str, args: Sequence[Any], upstream: Tensor) -> Gradients:
    """A function's output with and without gradients, and the gradients of its tensors.

    These are the gradients of the floating-point tensors for `upstream`: of all of them together,
    and of each while the others require none. `changed` is the output for tensors that were
    changed in place after a call, and `changed_copies` is the output for copies of them.
    """
    call = getattr(student.einops_reshaping, function)
    which = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.is_floating_point()]
    output, together = _backward(call, args, which, upstream)
    alone = [_backward(call, args, [i], upstream)[1][0] for i in which] if len(which) > 1 else []
    with torch.no_grad():
        given = [x.clone() if isinstance(x, Tensor) else x for x in args]
        again = call(*given)
        if isinstance(again, Tensor):  # it may be a view of an input
            again = again.clone()
        for i, x in enumerate(given):
            if isinstance(x, Tensor):
                x.copy_(x & x.roll(1, -1) if x.dtype == torch.bool else x * (-1 / (i + 1)))
        changed = call(*given)
        copies = call(*(x.clone() if isinstance(x, Tensor) else x for x in given))
    return {
        "output": output.detach() if isinstance(output, Tensor) else output,
        "without_gradients": again,
        "gradients": together,
        "alone": alone or together,
        "changed": changed,
        "changed_copies": copies,
    }


def gradients_each(
    student: Any, *, function: str, calls: Sequence[tuple[Sequence[Any], Tensor]]
) -> list[Gradients]:
    """The same for each of these arguments and gradients of the output."""
    return [
        gradients(student, function=function, args=args, upstream=upstream)
        for args, upstream in calls
    ]


def kept_each(
    student: Any, *, function: str, calls: Sequence[tuple[Any, ...]]
) -> list[ResultAndInputs]:
    """The result of a function for each of these arguments, and the arguments after it."""
    module = "einops_reshaping"
    return [
        call_and_keep_inputs(student, module=module, function=function, args=args) for args in calls
    ]


def _backward(
    call: Callable[..., Any], args: Sequence[Any], which: Sequence[int], upstream: Tensor
) -> tuple[Any, list[Tensor | None]]:
    """The output for copies of the arguments, and the gradients of these arguments.

    The function gets copies that are not leaves, so it may change them in place. A gradient is
    None if none arrives, or if the output does not fit `upstream`.
    """
    leaves = [x.clone() if isinstance(x, Tensor) else x for x in args]
    for i in which:
        leaves[i].requires_grad_()
    output = call(*(x.clone() if isinstance(x, Tensor) else x for x in leaves))
    fits = type(output) is Tensor and (output.shape, output.dtype) == (
        upstream.shape,
        upstream.dtype,
    )
    if fits and output.requires_grad:
        torch.autograd.backward(output, upstream)
    return output, [leaves[i].grad for i in which]
