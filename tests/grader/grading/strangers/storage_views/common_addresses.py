"""Tensors share only where the ranges of bytes that they show meet.

is: windows_overlap
"""


def shares_storage(a, b):
    def span(t):
        reach = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
        low = t.data_ptr()
        return low, low + reach * t.itemsize

    (a0, a1), (b0, b1) = span(a), span(b)
    return max(a0, b0) < min(a1, b1)
