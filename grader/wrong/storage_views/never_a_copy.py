"""The strides are always those of a contiguous tensor.

hint: which neighbouring dimensions step evenly?
"""

import math


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(f"new_shape {tuple(new_shape)} does not fit {tuple(shape)}")
    return contiguous_strides(new_shape)
