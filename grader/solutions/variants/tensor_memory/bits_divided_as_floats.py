"""Bits divided by 8 as floats, which are exact for every tensor that a memory holds."""


def tensor_bytes(x):
    bits = 8 * x.element_size()
    return int(x.numel() * bits / 8)
