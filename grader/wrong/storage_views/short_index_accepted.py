"""An index with too few or too many entries is not refused.

hint: one entry per dimension; zip stops silently at the shorter of two.
"""


def element_offset(x, index):
    offset = x.storage_offset()
    for i, size, stride in zip(index, x.shape, x.stride(), strict=False):
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range")
        offset += (i % size) * stride
    return offset
