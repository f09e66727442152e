"""Dimensions of stride 0 are left out of a tensor's elements.

hint: tensor_bytes counts each element that x shows.
"""

import math


def tensor_bytes(x):
    sizes = [size for size, stride in zip(x.shape, x.stride(), strict=True) if stride != 0]
    return math.prod(sizes) * x.element_size()
