"""A step over the size of a window is refused.

hint: windows may leave elements out between them.
"""

import torch


def sliding_windows(x, size, step):
    if not 1 <= step <= size <= len(x):
        raise ValueError(f"size {size} or step {step} does not fit {len(x)} elements")
    (stride,) = x.stride()
    return torch.as_strided(x, ((len(x) - size) // step + 1, size), (step * stride, stride), x.storage_offset())
