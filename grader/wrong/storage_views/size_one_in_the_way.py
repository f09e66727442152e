"""A dimension of size 1 is merged by its stride like any other.

hint: no step is ever taken along a dimension of size 1.
"""

import math


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(f"new_shape {tuple(new_shape)} does not fit {tuple(shape)}")
    blocks = []
    for size, step in reversed(list(zip(shape, stride, strict=True))):
        if blocks and step == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = (blocks[-1][0] * size, blocks[-1][1])
        else:
            blocks.append((size, step))
    strides = []
    remaining, step = blocks.pop(0) if blocks else (1, 1)
    for size in reversed(new_shape):
        if size > 1 and remaining == 1 and blocks:
            remaining, step = blocks.pop(0)
        if remaining % size:
            return None
        strides.append(step)
        remaining, step = remaining // size, step * size
    return tuple(reversed(strides))
