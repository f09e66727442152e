"""The strides are those that a contiguous tensor of this shape has.

hint: x.stride() knows how x lies in its storage.
"""


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries, x has {x.dim()} dimensions")
    offset = x.storage_offset()
    for i, size, stride in zip(index, x.shape, contiguous_strides(x.shape), strict=True):
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range")
        offset += (i % size) * stride
    return offset
