"""A negative index is out of range.

hint: as in Python: -1 is the last.
"""


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries, x has {x.dim()} dimensions")
    offset = x.storage_offset()
    for i, size, stride in zip(index, x.shape, x.stride(), strict=True):
        if not 0 <= i < size:
            raise IndexError(f"index {i} is out of range")
        offset += i * stride
    return offset
