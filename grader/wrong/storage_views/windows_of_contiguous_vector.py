"""x is taken to step by 1.

hint: what is x's stride?
"""

import torch


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError(f"size {size} does not fit {len(x)} elements")
    return torch.as_strided(x, ((len(x) - size) // step + 1, size), (step, 1), x.storage_offset())
