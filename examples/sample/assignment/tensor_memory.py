"""Chapter 1: what a tensor costs in bytes, and how shape, stride and offset show a storage without copying it.

A tensor is a window on a one-dimensional storage. Its shape says how many elements it shows, its strides how far apart
neighbours lie in the storage, its storage offset where the first one is. Two tensors can show one storage, and a tensor
can show less than its storage holds, or the same element many times.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor


def storage_elements(x: Tensor) -> int:
    """How many elements of x's dtype the storage behind x holds: a worked neighbour of the functions below.

    elements = bytes of the storage / bytes of one element.

    Args:
        x: Any tensor; a view counts its whole storage.

    Example:
        The first column of a 3×4 float32 matrix shows 3 elements of a storage of 12.
    """
    return x.untyped_storage().nbytes() // x.element_size()


def tensor_bytes(x: Tensor) -> int:
    """The bytes that x's elements take, each element that x shows counted.

    bytes = number of elements · bytes of one element, whatever the storage holds.

    Args:
        x: A tensor of any dtype, shape and device.

    Example:
        A 4×8 float32 matrix: 32 · 4 = 128 bytes.

    Handout §1.1 · tensor_memory · `pytest -k tensor_memory`
    """
    return x.numel() * x.element_size()


def storage_bytes(x: Tensor) -> int:
    """The bytes of the whole storage behind x, however little of it x shows.

    Args:
        x: A tensor of any dtype, shape and device.

    Example:
        One row of a 4×8 float32 matrix: the storage is the matrix's, 128 bytes.

    Handout §1.1 · tensor_memory · `pytest -k tensor_memory`
    """
    return x.untyped_storage().nbytes()


def unique_bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes that some tensors keep in memory together: each whole storage once.

    Views of one storage and a weight that is listed twice are not counted twice. Tensors that show different parts of one
    storage count that storage once, whole.

    Args:
        tensors: Any iterable of tensors, a generator as well; of any dtypes and devices, in any order.

    Example:
        A 4×8 float32 matrix, its transpose and one of its rows: 128 bytes.

    Handout §1.1 · tensor_memory · `pytest -k tensor_memory`
    """
    seen = set()
    total = 0
    for x in tensors:
        if x.data_ptr() not in seen:
            seen.add(x.data_ptr())
            total += storage_bytes(x)
    return total


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Whether a and b are windows on the same storage, wherever in it they lie.

    Args:
        a: A tensor.
        b: Another one, perhaps with another offset, shape or dtype, and perhaps empty.

    Example:
        The two halves of one vector share their storage although no element is in both.

    Handout §1.2 · storage_views · `pytest -k storage_views`
    """
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def element_offset(x: Tensor, index: Sequence[int]) -> int:
    """Which element of its storage x[index] is, counted from the start of the storage.

    offset = storage offset + Σ index[d] · stride[d]

    Args:
        x: A tensor of any number of dimensions.
        index: One integer a dimension; a negative one counts from the end, as in Python.

    Raises:
        ValueError: `index` has not exactly one entry a dimension.
        IndexError: An entry of `index` is out of range.

    Example:
        Element [1, 2] of a contiguous 3×4 matrix: 1·4 + 2·1 = 6.

    Handout §1.2 · storage_views · `pytest -k storage_views`
    """
    if len(index) != x.dim():
        raise ValueError(f"index needs {x.dim()} entries, got {len(index)}")
    offset = 0
    for i, size, stride in zip(index, x.shape, x.stride()):
        if i < -size or i >= size:
            raise IndexError(f"{i} is out of range for size {size}")
        offset += (i + size if i < 0 else i) * stride
    return offset


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous (row-major) tensor of this shape.

    stride[d] = product of the sizes after d

    Args:
        shape: Sizes, none of them negative; () for a scalar.

    Raises:
        ValueError: An entry of `shape` is negative.

    Example:
        (3, 4, 5) has strides (20, 5, 1). For a shape without a 0 this is what torch.empty(shape).stride() gives; a shape
        with a 0 has no elements, and any strides do.

    Handout §1.2 · storage_views · `pytest -k storage_views`
    """
    if any(n < 0 for n in shape):
        raise ValueError("shape must not have negative sizes")
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    return tuple(strides) if len(shape) else ()


def view_strides(shape: Sequence[int], stride: Sequence[int], new_shape: Sequence[int]) -> tuple[int, ...] | None:
    """The strides that show the same elements, in the same order, as `new_shape` without a copy; None where none do.

    This is the question that Tensor.view answers. Neighbouring dimensions can be merged where the outer one steps exactly
    over the inner one, stride[d] = shape[d + 1] · stride[d + 1]; any dimension can be split; a dimension of size 1 never
    stands in the way, and its own stride is free, as no step is ever taken along it.

    Args:
        shape: Sizes of the tensor, none of them 0 or negative.
        stride: Its strides in elements, one a dimension; 0 for an expanded dimension.
        new_shape: The sizes wanted, without a -1.

    Raises:
        ValueError: `shape` and `stride` have different lengths, `new_shape` has a size below 1, or it does not have as many
            elements as `shape`.

    Example:
        (2, 3, 4) with strides (12, 4, 1) as (6, 4): (4, 1). Its transpose (4, 3, 2) with strides (1, 4, 12) as (24,): None.

    Handout §1.2 · storage_views · `pytest -k storage_views`
    """
    # TODO(storage_views): about 22 lines.
    raise NotImplementedError("storage_views: see handout §1.2")


def sliding_windows(x: Shaped[Tensor, "n"], size: int, step: int) -> Shaped[Tensor, "windows size"]:
    """Every window of `size` neighbours, `step` apart, as a view of x: nothing is copied.

    windows[i, j] = x[i·step + j], for as many windows as fit whole: (n - size) // step + 1.

    Args:
        x: A vector; it need not be contiguous.
        size: Elements in a window, at least 1 and at most n.
        step: Distance from one window's start to the next one's, at least 1.

    Raises:
        ValueError: `size` or `step` is out of range (for a `size` over n, torch's own error does as well).

    Example:
        [0, 1, 2, 3, 4] with size 3 and step 2: [[0, 1, 2], [2, 3, 4]].

    Handout §1.2 · storage_views · `pytest -k storage_views`
    """
    if size < 1 or step < 1 or size > len(x):
        raise ValueError("size and step must be at least 1, and size at most n")
    count = (len(x) - size) // step + 1
    data = x.numpy()
    windows = np.lib.stride_tricks.as_strided(data, (count, size), (step * x.data_ptr(), data.strides[0]))
    return torch.from_numpy(windows.copy())
