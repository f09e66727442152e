"""Looks offsets up in a numbered storage, uses numpy's cumprod, and sets a tensor on a storage."""

import math

import numpy as np
import torch


def element_offset(x, index):
    if len(index) != x.ndim:
        raise ValueError(f"index must have {x.ndim} entries, got {len(index)}")
    numbers = torch.arange(x.untyped_storage().nbytes() // x.element_size())
    picture = numbers.as_strided(x.shape, x.stride(), x.storage_offset())
    for i in index:
        picture = picture[i]
    return int(picture)


def contiguous_strides(shape):
    ones = np.array([1, *list(shape)[:0:-1]], dtype=object)[: len(shape)]
    return tuple(int(v) for v in np.cumprod(ones)[::-1])


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError("different numbers of elements")
    runs = []
    for n, s in zip(shape, stride, strict=True):
        if n > 1 and runs and runs[-1][1] == n * s:
            runs[-1] = [runs[-1][0] * n, s]
        elif n > 1:
            runs.append([n, s])
    strides = []
    for n in new_shape:
        if n > 1 and runs[0][0] % n:
            return None
        if n > 1:
            runs[0][0] //= n
        strides.append(runs[0][0] * runs[0][1] if n > 1 else 1)
        if n > 1 and runs[0][0] == 1:
            runs.pop(0)
    return tuple(strides)


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError("too large")
    count = (len(x) - size) // step + 1
    windows = torch.empty(0, dtype=x.dtype)
    stride = (x.stride(0) * step, x.stride(0))
    windows.set_(x.untyped_storage(), x.storage_offset(), (count, size), stride)
    return windows
