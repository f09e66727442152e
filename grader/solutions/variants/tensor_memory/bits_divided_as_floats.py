"""Divides bits by 8 in floats, which are exact for every tensor that fits into memory."""


def tensor_bytes(x):
    bits = 8 * x.element_size()
    return int(x.numel() * bits / 8)
