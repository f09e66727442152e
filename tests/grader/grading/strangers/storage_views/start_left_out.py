"""The position is counted from the first element of the view.

is: storage_offset_forgotten
"""


def element_offset(x, index):
    if len(index) != x.ndim:
        raise ValueError("one index per dimension")
    place = 0
    for d, i in enumerate(index):
        if i >= x.size(d) or i < -x.size(d):
            raise IndexError(i)
        place += x.stride(d) * (i + x.size(d) if i < 0 else i)
    return place
