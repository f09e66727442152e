"""Counts bits first, in Python's integers."""


def tensor_bytes(x):
    bits = 8 * x.element_size()
    return x.numel() * bits // 8
