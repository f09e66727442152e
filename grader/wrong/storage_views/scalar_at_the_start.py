"""A scalar is taken to lie at the start of its storage.

hint: x[2, 3] is a scalar too, and a view of x.
"""


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries, x has {x.dim()} dimensions")
    if x.dim() == 0:
        return 0
    offset = x.storage_offset()
    for i, size, stride in zip(index, x.shape, x.stride(), strict=True):
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range")
        offset += (i % size) * stride
    return offset
