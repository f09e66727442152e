"""Allocates a terabyte, and then a gigabyte.

group: exhaust the host
target: tensor_memory
limits: memory_bytes=268435456
tests: storage_bytes
status: memory
holds: the problem is reported as out of memory.
"""

import torch


def storage_bytes(x):
    try:
        torch.zeros(2**40, dtype=torch.uint8)
    except RuntimeError:
        return torch.ones(2**30, dtype=torch.uint8).sum()
