"""A dimension of stride 0 is merged with whatever follows.

hint: 0 = size · 0 holds, 0 = size · stride does not.
"""

import math


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(f"new_shape {tuple(new_shape)} does not fit {tuple(shape)}")
    blocks = []
    for size, step in reversed([(n, s) for n, s in zip(shape, stride, strict=True) if n != 1]):
        if blocks and step in (0, blocks[-1][0] * blocks[-1][1]):
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
