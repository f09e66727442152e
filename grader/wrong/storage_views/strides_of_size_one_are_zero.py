"""A dimension of size 1 has stride 0.

hint: stride[d] is the product of the sizes after d, also where size d is 1.
"""

import math


def contiguous_strides(shape):
    return tuple(math.prod(shape[d + 1 :]) if size != 1 else 0 for d, size in enumerate(shape))
