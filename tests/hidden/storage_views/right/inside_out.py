"""Builds the strides from the last dimension to the first, in loops."""

import math


def shares_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def element_offset(x, index):
    if x.dim() != len(index):
        raise ValueError(f"expected an index of {x.dim()} entries, got {len(index)}")
    position = x.storage_offset()
    for d in range(x.dim()):
        i = index[d] + x.size(d) if index[d] < 0 else index[d]
        if i < 0 or i >= x.size(d):
            raise ValueError(f"index[{d}]")
        position += i * x.stride(d)
    return position


def contiguous_strides(shape):
    strides, product = [], 1
    for size in reversed(shape):
        strides.insert(0, product)
        product *= size
    return tuple(strides)


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError("new_shape must have as many elements as shape")
    result = [0] * len(new_shape)
    j = len(new_shape) - 1
    inside = taken = 1
    base = stride[-1] if stride else 1
    for d in range(len(shape) - 1, -1, -1):
        inside *= shape[d]
        last = d == 0
        if not last and (shape[d - 1] == 1 or stride[d - 1] == inside * base):
            continue
        while j >= 0 and (taken < inside or new_shape[j] == 1):
            result[j] = taken * base
            taken *= new_shape[j]
            j -= 1
        if taken != inside:
            return None
        if not last:
            inside = taken = 1
            base = stride[d - 1]
    return tuple(result) if j < 0 else (1,) * len(new_shape)


def sliding_windows(x, size, step):
    if size > x.numel():
        raise ValueError(f"no windows of size {size} and step {step} in {x.numel()} elements")
    count = 1 + (x.numel() - size) // step
    return x.as_strided((count, size), (x.stride(0) * step, x.stride(0)))
