"""Probes for tensor_memory.py: facts known only in the process that created a tensor."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn


class Bytes(TypedDict):
    tensors: list[Any]
    storages: list[Any]
    together: Any


class Windows(TypedDict):
    result: Any
    later: Any  # the same windows after each number of x has changed its sign


def unique_bytes_of_a_generator(student: Any, *, tensors: Sequence[Tensor]) -> Any:
    """unique_bytes of a generator of these tensors."""
    return student.tensor_memory.unique_bytes(x for x in tensors)


def bytes_of_parameters(student: Any, *, shapes: Sequence[Sequence[int]], device: str) -> Bytes:
    """The bytes of float32 parameters, of the storages of their first rows, and of all together.

    The first parameter is listed twice, and once more as a slice of its data.
    """
    module = student.tensor_memory
    parameters = [nn.Parameter(torch.zeros(tuple(shape), device=device)) for shape in shapes]
    return {
        "tensors": [module.tensor_bytes(x) for x in parameters],
        "storages": [module.storage_bytes(x[:1]) for x in parameters],
        "together": module.unique_bytes([*parameters, parameters[0], parameters[0].data[1:]]),
    }


def shares_storage_on_meta(student: Any, *, shape: Sequence[int]) -> list[Any]:
    """shares_storage of a tensor on the meta device with a slice of it, and with another tensor."""
    x = torch.zeros(tuple(shape), device="meta")
    return [student.tensor_memory.shares_storage(x, y) for y in (x[1:], torch.zeros_like(x))]


def windows(student: Any, *, base: Tensor, first: int, every: int, size: int, step: int) -> Windows:
    """sliding_windows of base[first::every], before and after a change of these numbers."""
    x = base.clone()[first::every]
    result = student.tensor_memory.sliding_windows(x, size, step)
    if not isinstance(result, Tensor):
        return {"result": result, "later": result}
    before = result.clone()
    x.neg_()
    return {"result": before, "later": result}
