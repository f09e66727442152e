"""The position is multiplied by the size of an element.

is: offset_in_bytes
"""


def element_offset(x, index):
    if len(index) != x.ndim:
        raise ValueError("one index per dimension")
    if any(not -n <= i < n for i, n in zip(index, x.shape)):
        raise IndexError(tuple(index))
    places = [s * (i % n) for i, n, s in zip(index, x.shape, x.stride())]
    return x.itemsize * sum(places, x.storage_offset())
