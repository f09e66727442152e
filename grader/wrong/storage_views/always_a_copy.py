"""A new shape always needs a copy.

hint: what does Tensor.view do without a copy?
"""

import math


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError(f"new_shape {tuple(new_shape)} does not fit {tuple(shape)}")
    return tuple(stride) if tuple(shape) == tuple(new_shape) else None
