"""A negative index counts from the last element, so that -1 is the last but one."""


def element_offset(x, index):
    if len(index) != x.ndim:
        raise ValueError("one index per dimension")
    place = x.storage_offset()
    for i, n, s in zip(index, x.shape, x.stride()):
        if not -n <= i < n:
            raise IndexError(i)
        place += s * (i if i >= 0 else max(n - 1 + i, 0))
    return place
