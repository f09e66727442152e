"""Right code whose output is not contiguous and shares its storage with a larger tensor.

group: right code
takes: 1
ends: passed
holds: the digest depends on the values alone, not on strides and storages.
"""

import torch


def product(a, b):
    larger = torch.zeros(2 * len(a), len(b))
    larger[::2] = (a @ b).T
    return larger[::2].T
