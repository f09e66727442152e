"""A size of 0 is refused like a negative one.

hint: a tensor may have no elements.
"""

import math


def contiguous_strides(shape):
    if any(size < 1 for size in shape):
        raise ValueError(f"shape {tuple(shape)} has a size below 1")
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
