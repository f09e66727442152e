"""What the student wrote in assignment/tensor_memory.py: the bodies of these definitions."""

import numpy as np


def tensor_bytes(x):
    return x.numel() * x.element_size()


def storage_bytes(x):
    return x.untyped_storage().nbytes()


def unique_bytes(tensors):
    seen = set()
    total = 0
    for x in tensors:
        if x.data_ptr() not in seen:
            seen.add(x.data_ptr())
            total += storage_bytes(x)
    return total


def shares_storage(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index needs {x.dim()} entries, got {len(index)}")
    offset = 0
    for i, size, stride in zip(index, x.shape, x.stride()):
        if i < -size or i >= size:
            raise IndexError(f"{i} is out of range for size {size}")
        offset += (i + size if i < 0 else i) * stride
    return offset


def contiguous_strides(shape):
    if any(n < 0 for n in shape):
        raise ValueError("shape must not have negative sizes")
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    return tuple(strides) if len(shape) else ()


def sliding_windows(x, size, step):
    if size < 1 or step < 1 or size > len(x):
        raise ValueError("size and step must be at least 1, and size at most n")
    count = (len(x) - size) // step + 1
    data = x.numpy()
    windows = np.lib.stride_tricks.as_strided(data, (count, size), (step * x.data_ptr(), data.strides[0]))
    return torch.from_numpy(windows.copy())
