"""Chapter 1: how many bytes a tensor takes, and how shape, strides and offset describe a view.

A tensor is a view of a one-dimensional storage. Its shape gives the number of elements along each
dimension, its strides give the distance in the storage between neighbours along each dimension, and
its storage offset gives the position of the first element. Several tensors can share one storage. A
tensor can show only a part of its storage, or show the same element many times.

Tensors have any dtype, shape and device, "meta" included, where every storage has the address 0.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Shaped
from torch import Tensor


def storage_elements(x: Tensor) -> int:
    """Count the elements of x's dtype in the storage of x: a solved example for this module.

    elements = bytes of the storage / bytes of one element.

    Args:
        x: Any tensor. A view counts its whole storage.

    Example:
        The first column of a 3×4 float32 matrix shows 3 elements; its storage has 12.
    """
    return x.untyped_storage().nbytes() // x.element_size()


def tensor_bytes(x: Tensor) -> int:
    """The bytes of x's own elements, however large its storage is.

    Args:
        x: Any tensor.

    Example:
        A 4×8 float32 matrix: 32 · 4 = 128 bytes.

    Handout §1.1 · `python -m assignment check tensor_memory`
    """
    # BEGIN SOLUTION(tensor_memory)
    return x.numel() * x.element_size()
    # END SOLUTION


def storage_bytes(x: Tensor) -> int:
    """The bytes of the whole storage of x, even if x shows only a part of it.

    Args:
        x: Any tensor.

    Example:
        One row of a 4×8 float32 matrix: 128 bytes.

    Handout §1.1
    """
    # BEGIN SOLUTION(tensor_memory)
    return x.untyped_storage().nbytes()
    # END SOLUTION


def unique_bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes that several tensors keep in memory together.

    Each storage counts once and as a whole.

    Args:
        tensors: Any tensors, perhaps from a generator.

    Example:
        A 4×8 float32 matrix, its transpose and one of its rows: 128 bytes.

    Handout §1.1
    """
    # BEGIN SOLUTION(tensor_memory)
    # The list keeps every storage alive, so no address is reused while we count.
    storages = [x.untyped_storage() for x in tensors]
    return sum({s._cdata: s.nbytes() for s in storages}.values())
    # END SOLUTION


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Whether a and b are views of the same storage, at any positions in it.

    Args:
        a, b: Any tensors, perhaps of different dtypes.

    Example:
        The two halves of one vector: True.

    Handout §1.2 · `python -m assignment check storage_views`
    """
    # BEGIN SOLUTION(storage_views)
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata
    # END SOLUTION


def element_offset(x: Tensor, index: Sequence[int]) -> int:
    """The position of x[index] in x's storage, in elements.

    offset = storage offset + Σ index[d] · stride[d]

    Args:
        x: Any tensor.
        index: One integer per dimension; negative ones count from the end.

    Raises:
        IndexError: An entry is out of range.
        ValueError: There is not one entry per dimension.

    Example:
        Element [1, 2] of a contiguous 3×4 matrix: 1·4 + 2·1 = 6.

    Handout §1.2
    """
    # BEGIN SOLUTION(storage_views)
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries for a tensor of {x.dim()} dimensions")
    offset = x.storage_offset()
    for i, size, stride in zip(index, x.shape, x.stride(), strict=True):
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range for a dimension of size {size}")
        offset += (i % size) * stride
    return offset
    # END SOLUTION


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous (row-major) tensor of this shape.

    stride[d] = product of the sizes after d

    Args:
        shape: The sizes.

    Example:
        (3, 4, 5) has strides (20, 5, 1).

    Handout §1.2
    """
    # BEGIN SOLUTION(storage_views)
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    # END SOLUTION


def view_strides(
    shape: Sequence[int], stride: Sequence[int], new_shape: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of a view with shape `new_shape`, or None if this shape needs a copy.

    As in Tensor.view, the elements keep their order. Two neighbours can be merged if
    stride[d] = shape[d + 1] · stride[d + 1]. Any dimension can be split. A dimension of size 1
    never prevents a view, and its stride may be any number.

    Args:
        shape: The sizes of the tensor.
        stride: Its strides, perhaps 0.
        new_shape: The sizes of the view.

    Raises:
        ValueError: The two shapes have different numbers of elements.

    Example:
        Shape (2, 3, 4), strides (12, 4, 1), viewed as (6, 4): (4, 1).
        Its transpose, shape (4, 3, 2), strides (1, 4, 12), viewed as (24,): None.

    Handout §1.2
    """
    # BEGIN SOLUTION(storage_views)
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(
            f"new_shape {tuple(new_shape)} does not have "
            f"the {math.prod(shape)} elements of the tensor"
        )
    # Runs of evenly spaced elements as (size, inner stride), innermost first.
    blocks: list[tuple[int, int]] = []
    for size, step in reversed([(n, s) for n, s in zip(shape, stride, strict=True) if n != 1]):
        if blocks and step == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = (blocks[-1][0] * size, blocks[-1][1])
        else:
            blocks.append((size, step))
    strides: list[int] = []
    remaining, step = 1, 1
    for size in reversed(new_shape):
        if size > 1 and remaining == 1:
            remaining, step = blocks.pop(0)
        if remaining % size:
            return None
        strides.append(step)
        remaining, step = remaining // size, step * size
    return tuple(reversed(strides))
    # END SOLUTION


def sliding_windows(x: Shaped[Tensor, "n"], size: int, step: int) -> Shaped[Tensor, "windows size"]:
    """A view of x whose rows are windows of neighbours.

    windows[i, j] = x[i·step + j], for all whole windows.

    Args:
        x: A vector, perhaps a slice.
        size: Elements per window.
        step: Elements from one window's start to the next.

    Raises:
        ValueError: `size` is more than n.

    Example:
        [0, 1, 2, 3, 4], size 3, step 2: [[0, 1, 2], [2, 3, 4]].

    Handout §1.2
    """
    # BEGIN SOLUTION(storage_views)
    if size > x.shape[0]:
        raise ValueError(f"size {size} is more than the {x.shape[0]} elements of x")
    (stride,) = x.stride()
    windows = (x.shape[0] - size) // step + 1
    return torch.as_strided(x, (windows, size), (step * stride, stride), x.storage_offset())
    # END SOLUTION
