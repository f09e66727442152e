"""The sizes are divided out of the number of elements as floats.

hint: // keeps integers exact, / makes floats.
"""

import math


def contiguous_strides(shape):
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {tuple(shape)} has a negative size")
    remaining, strides = math.prod(shape), []
    for size in shape:
        remaining = int(remaining / max(size, 1))
        strides.append(remaining)
    return tuple(strides)
