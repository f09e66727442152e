"""Divides the number of elements by each size, in floats, which are exact up to 2**53."""

import math


def contiguous_strides(shape):
    remaining, strides = math.prod(shape), []
    for size in shape:
        remaining = int(remaining / max(size, 1))
        strides.append(remaining)
    return tuple(strides)
