"""Right code that returns the same buffer from every call.

group: right code
takes: 1
ends: passed
holds: an output is fetched before the next call may overwrite it.
"""

import torch

buffers = {}


def product(a, b):
    buffer = buffers.setdefault(a.shape, torch.empty_like(a))
    return torch.matmul(a, b, out=buffer)
