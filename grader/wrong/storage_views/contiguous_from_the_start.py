"""A contiguous vector is taken to begin where its storage does.

hint: a row of a matrix is contiguous, and where does it begin?
"""

import torch


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError(f"size {size} does not fit {len(x)} elements")
    (stride,) = x.stride()
    first = 0 if x.is_contiguous() else x.storage_offset()
    return torch.as_strided(x, ((len(x) - size) // step + 1, size), (step * stride, stride), first)
