"""Divides the number of elements by each size."""

import math


def contiguous_strides(shape):
    remaining, strides = math.prod(shape), []
    for size in shape:
        remaining = remaining // max(size, 1)
        strides.append(remaining)
    return tuple(strides)
