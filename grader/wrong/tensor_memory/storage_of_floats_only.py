"""The size of an element is asked of torch.finfo, which knows no integers.

hint: the storage counts in bytes and has no dtype.
"""

import torch


def storage_bytes(x):
    return storage_elements(x) * torch.finfo(x.dtype).bits // 8
