"""The windows start where the storage starts.

hint: as_strided takes its offset from the start of the storage.
"""

import torch


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError(f"size {size} does not fit {len(x)} elements")
    (stride,) = x.stride()
    return torch.as_strided(x, ((len(x) - size) // step + 1, size), (step * stride, stride), 0)
