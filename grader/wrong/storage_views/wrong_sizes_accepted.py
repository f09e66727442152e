"""Neither size nor step is checked.

hint: a size or step below 1 is a ValueError.
"""

import torch


def sliding_windows(x, size, step):
    (stride,) = x.stride()
    return torch.as_strided(x, ((len(x) - size) // step + 1, size), (step * stride, stride), x.storage_offset())
