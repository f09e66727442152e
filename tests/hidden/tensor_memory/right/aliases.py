"""Asks torch whether two tensors are aliases, and keeps one tensor of each storage."""

import torch


def unique_bytes(tensors):
    kept = []
    for x in tensors:
        if not any(torch._C._is_alias_of(x, other) for other in kept):
            kept.append(x)
    return sum(x.untyped_storage().nbytes() for x in kept)
