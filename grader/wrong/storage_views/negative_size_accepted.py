"""A negative size is not refused.

hint: a negative size has to be a ValueError that names shape.
"""

import math


def contiguous_strides(shape):
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
