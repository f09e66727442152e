"""Right code in another style.

group: right code
from: pygpubench correct
takes: 1
ends: passed
holds: right code that is as fast as the reference passes.
"""

import torch


def product(a, b):
    return torch.einsum("ik,kj->ij", a, b)
