"""Accepts a -1 in the new shape, as Tensor.view does."""

import math


def view_strides(shape, stride, new_shape):
    if -1 in new_shape:
        known = math.prod(size for size in new_shape if size != -1)
        new_shape = tuple(math.prod(shape) // known if size == -1 else size for size in new_shape)
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(f"new_shape {tuple(new_shape)} does not fit {tuple(shape)}")
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
