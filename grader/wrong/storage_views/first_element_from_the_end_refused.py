"""The index -size is refused, although it is the first element.

hint: -size is the first element: -size <= i < size.
"""


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries, x has {x.dim()} dimensions")
    offset = x.storage_offset()
    for i, size, stride in zip(index, x.shape, x.stride(), strict=True):
        if not -size < i < size:
            raise IndexError(f"index {i} is out of range")
        offset += (i % size) * stride
    return offset
