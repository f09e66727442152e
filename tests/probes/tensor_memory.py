"""Probes for tensor_memory.py: facts known only in the process that created a tensor."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor


class Windows(TypedDict):
    """The result of `windows`."""

    result: Any
    is_view: bool


def unique_bytes_of_generator(student: Any, *, tensors: Sequence[Tensor]) -> Any:
    """unique_bytes of a generator, which can be iterated over only once."""
    return student.tensor_memory.unique_bytes(x for x in tensors)


def windows(student: Any, *, x: Tensor, size: int, step: int) -> Windows:
    """sliding_windows of x, and whether the result is a view.

    The result is a view if a write to x shows in it and its storage is the storage of x.
    """
    storage = x.untyped_storage().clone()  # type: ignore[no-untyped-call]
    x = torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.shape, x.stride())
    result = student.tensor_memory.sliding_windows(x, size, step)
    if type(result) is not Tensor:
        return {"result": result, "is_view": False}
    before = result.clone()
    x.add_(1)
    is_view = result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and bool(
        (result == before + 1).all()
    )
    return {"result": before, "is_view": is_view}
