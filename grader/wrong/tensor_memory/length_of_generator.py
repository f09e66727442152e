"""The tensors are counted first, which a generator does not allow.

hint: an iterable need not have a length.
"""


def unique_bytes(tensors):
    total, seen = 0, {}
    for i in range(len(tensors)):
        storage = tensors[i].untyped_storage()
        if storage._cdata not in seen:
            total += storage.nbytes()
        seen[storage._cdata] = storage
    return total
