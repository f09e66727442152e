"""A tensor with the values of another one is not counted.

hint: same storage, or equal values?
"""

import torch


def unique_bytes(tensors):
    kept = []
    for x in tensors:
        if not any(x.shape == y.shape and torch.equal(x, y) for y in kept):
            kept.append(x)
    return sum({x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in kept}.values())
