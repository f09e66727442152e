"""An index equal to the size is accepted."""


def element_offset(x, index):
    if len(index) != x.ndim:
        raise ValueError("one index per dimension")
    place = x.storage_offset()
    for i, n, s in zip(index, x.shape, x.stride()):
        if i > n or i < -n:
            raise IndexError(i)
        place += s * (i if i >= 0 else n + i)
    return place
