"""The storage is taken to end where the last shown element ends.

is: storage_from_strides
"""


def storage_bytes(x):
    last = x.storage_offset()
    for size, step in zip(x.shape, x.stride()):
        if size == 0:
            return 0
        last += step * (size - 1)
    return x.dtype.itemsize * (last + 1)
