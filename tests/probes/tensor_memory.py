"""Probes for tensor_memory.py: facts known only in the process that created a tensor."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn


class Bytes(TypedDict):
    """The result of `bytes_of`."""

    tensors: list[Any]
    storages: list[Any]
    together: list[Any]


class Windows(TypedDict):
    """The result of `windows`."""

    result: Any
    is_view: bool


def unique_bytes_of_generators(student: Any, *, tensors: Sequence[Tensor]) -> list[Any]:
    """unique_bytes of a generator of tensors, of a map that copies, and of views of copies."""
    unique_bytes = student.tensor_memory.unique_bytes
    made = [unique_bytes(x for x in tensors), unique_bytes(map(torch.clone, tensors))]
    return [*made, unique_bytes(x.clone().unsqueeze(0) for x in tensors)]


def bytes_of(student: Any, *, tensors: Sequence[Tensor], how: str) -> Bytes:
    """The bytes of each tensor, of each storage, and of all together, asked for twice.

    The first tensor is listed twice.

    Args:
        student: The student's package.
        tensors: The tensors; views of one storage stay views of one storage.
        how: "as parameters", every second one; "as slices", the first row of each; "on meta"; "as
            conjugates", every second one; or "without gradients", the mode for the calls.
    """
    if how == "as parameters":
        tensors = [x if i % 2 else nn.Parameter(x) for i, x in enumerate(tensors)]
    if how == "as conjugates":
        tensors = [x.conj() if i % 2 else x for i, x in enumerate(tensors)]
    if how == "as slices":  # views that torch knows to be views
        tensors = [x[:1] for x in tensors]
    if how == "on meta":
        tensors = _on_meta(tensors)
    module, listed = student.tensor_memory, [*tensors, tensors[0]]
    with torch.set_grad_enabled(how != "without gradients"):
        return {
            "tensors": [module.tensor_bytes(x) for x in tensors],
            "storages": [module.storage_bytes(x) for x in tensors],
            "together": [module.unique_bytes(listed) for _ in range(2)],
        }


def bytes_of_one_repeated(student: Any, *, count: int) -> Any:
    """tensor_bytes of one element that is expanded to this many, or the name of its error."""
    try:
        return student.tensor_memory.tensor_bytes(torch.zeros(1).expand(count))
    except NotImplementedError:
        raise
    except (MemoryError, RuntimeError) as e:
        return type(e).__name__


def bytes_while_growing(student: Any, *, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """The answers of the three functions for one tensor, which is resized between the calls."""
    module, x = student.tensor_memory, torch.zeros(0)
    answers = []
    for size in sizes:
        x.resize_(size)
        answers.append(
            {
                "tensor_bytes": module.tensor_bytes(x),
                "storage_bytes": module.storage_bytes(x),
                "unique_bytes": module.unique_bytes([x]),
            }
        )
    return answers


def shares_storage_of_made(
    student: Any, *, shape: Sequence[int], device: str
) -> list[tuple[Any, Any]]:
    """shares_storage of a complex parameter of this shape and other tensors, in both orders.

    These are itself, its data, a slice of it, its real part, its bits as integers, its conjugate,
    and another tensor of its shape. The second order is asked for without gradients.
    """
    shares = student.tensor_memory.shares_storage
    without_gradients = torch.no_grad()(shares)
    x = nn.Parameter(torch.zeros(tuple(shape), device=device, dtype=torch.complex64))
    views = [x[1:], x.real, x.data.view(torch.int32), x.conj()]
    others = [x, x.data, *views, torch.ones_like(x)]
    return [(shares(x, other), without_gradients(other, x)) for other in others]


def element_offsets(
    student: Any, *, x: Tensor, indices: Sequence[Sequence[int]], mode: str
) -> list[Any]:
    """element_offset of a parameter at each index, in grad mode or without gradients.

    Or "of a conjugate": x without gradients, as the conjugate of a complex tensor.
    """
    x = x.requires_grad_(mode == "in grad mode")
    x = torch.complex(x, x).conj()[1:] if mode == "of a conjugate" else x[1:]
    with torch.set_grad_enabled(mode == "in grad mode"):
        return [student.tensor_memory.element_offset(x, index) for index in indices]


def _on_meta(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same tensors, with the same storages, on the meta device."""
    storages: dict[int, Any] = {}
    made = []
    for x in tensors:
        old = x.untyped_storage()
        if old._cdata not in storages:
            memory = torch.empty(old.nbytes(), dtype=torch.uint8, device="meta")
            storages[old._cdata] = memory.untyped_storage()
        view = torch.empty(0, dtype=x.dtype, device="meta")
        made.append(view.set_(storages[old._cdata], x.storage_offset(), x.shape, x.stride()))
    return made


def windows_of_conjugates(student: Any, *, x: Tensor, size: int, step: int) -> list[Windows]:
    """sliding_windows of x.conj(), and of its imaginary part."""
    found: list[Windows] = []
    for y in (x.conj(), x.conj().imag):
        result = student.tensor_memory.sliding_windows(y, size, step)
        is_view = type(result) is Tensor and torch._C._is_alias_of(result, x)  # type: ignore[attr-defined]
        found.append({"result": result, "is_view": is_view})
    return found


def windows(
    student: Any, *, x: Tensor, size: int, step: int, gradients: bool, required: bool
) -> Windows:
    """sliding_windows of x, with gradients enabled or not, and whether the result is a view.

    x requires gradients if `required`.

    The result is a view if a write to x shows in it and its storage is the storage of x.
    """
    storage = x.untyped_storage().clone()  # type: ignore[no-untyped-call]
    x = torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.shape, x.stride())
    with torch.set_grad_enabled(gradients):
        result = student.tensor_memory.sliding_windows(x.requires_grad_(required), size, step)
    if type(result) is not Tensor:
        return {"result": result, "is_view": False}
    x, result = x.detach(), result.detach()
    before = result.clone()
    (x if x.stride(0) else x[:1]).add_(1)
    is_view = result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and bool(
        (result == before + 1).all()
    )
    return {"result": before, "is_view": is_view}
