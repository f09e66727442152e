"""A storage is counted as at least as large as what a tensor shows of it.

hint: an expanded tensor shows the same elements many times.
"""


def unique_bytes(tensors):
    storages, sizes = [], {}
    for x in tensors:
        storage = x.untyped_storage()
        storages.append(storage)
        sizes[storage._cdata] = max(sizes.get(storage._cdata, 0), storage.nbytes(), x.numel() * x.element_size())
    return sum(sizes.values())
