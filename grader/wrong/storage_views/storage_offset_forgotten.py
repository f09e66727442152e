"""The offset is counted from the tensor's first element.

hint: where in its storage does x start?
"""


def element_offset(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index has {len(index)} entries, x has {x.dim()} dimensions")
    offset = 0
    for i, size, stride in zip(index, x.shape, x.stride(), strict=True):
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range")
        offset += (i % size) * stride
    return offset
