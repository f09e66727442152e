"""A permuted tensor is said to need a copy, whichever dimensions were moved.

hint: dimensions that were moved together can still be merged.
"""

import math


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(f"new_shape {tuple(new_shape)} does not fit {tuple(shape)}")
    steps = [s for n, s in zip(shape, stride, strict=True) if n > 1 and s > 0]
    if tuple(shape) != tuple(new_shape) and steps != sorted(steps, reverse=True):
        return None
    blocks = []
    for size, step in reversed([(n, s) for n, s in zip(shape, stride, strict=True) if n != 1]):
        if blocks and step == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = (blocks[-1][0] * size, blocks[-1][1])
        else:
            blocks.append((size, step))
    strides = []
    remaining, step = blocks.pop(0) if blocks else (1, 1)
    for size in reversed(new_shape):
        if size > 1 and remaining == 1:
            remaining, step = blocks.pop(0)
        if remaining % size:
            return None
        strides.append(step)
        remaining, step = remaining // size, step * size
    return tuple(reversed(strides))
