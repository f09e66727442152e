"""As many windows as steps, although the last ones do not fit.

hint: (n - size) // step + 1 windows.
"""

import torch


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError(f"size {size} does not fit {len(x)} elements")
    (stride,) = x.stride()
    return torch.as_strided(x, (-(-(len(x) - size) // step) + 1, size), (step * stride, stride), x.storage_offset())
