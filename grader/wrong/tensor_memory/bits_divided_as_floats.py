"""The bits are divided by 8 as floats, which are not exact for large tensors.

hint: integers all the way: x.element_size() is in bytes already.
"""


def tensor_bytes(x):
    bits = 8 * x.element_size()
    return int(x.numel() * bits / 8)
