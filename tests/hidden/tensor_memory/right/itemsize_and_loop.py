"""Multiplies the sizes one by one, and adds up storages that are not yet in a list."""


def tensor_bytes(x):
    total = x.dtype.itemsize
    for size in x.shape:
        total *= size
    return total


def unique_bytes(tensors):
    total = 0
    seen = []
    for x in tensors:
        storage = x.untyped_storage()
        if not any(storage._cdata == other._cdata for other in seen):
            seen.append(storage)
            total += storage.nbytes()
    return total
