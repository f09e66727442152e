"""The last stride is a float, because np.prod of nothing is 1.0.

hint: math.prod of nothing is the int 1.
"""

import numpy as np


def contiguous_strides(shape):
    return tuple(np.prod(shape[d + 1 :]) for d in range(len(shape)))
