"""A bool is counted as one bit.

hint: torch keeps a bool in a byte of its own.
"""

import torch


def tensor_bytes(x):
    bits = 1 if x.dtype == torch.bool else 8 * x.element_size()
    return x.numel() * bits // 8
