"""Each storage is counted once, by the elements that its first tensor shows.

hint: a view keeps its whole storage in memory.
"""


def unique_bytes(tensors):
    seen, total = set(), 0
    for x in list(tensors):
        key = x.untyped_storage()._cdata
        if key not in seen:
            total += x.numel() * x.element_size()
        seen.add(key)
    return total
