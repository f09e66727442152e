"""The strides are a list.

hint: x.stride() is a tuple.
"""

import math


def contiguous_strides(shape):
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {tuple(shape)} has a negative size")
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]
