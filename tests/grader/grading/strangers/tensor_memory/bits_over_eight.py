"""A true division of the bits by 8 makes the count a float.

is: float_result
"""


def tensor_bytes(x):
    bits = 8 * x.itemsize * math.prod(x.size())
    return bits / 8
