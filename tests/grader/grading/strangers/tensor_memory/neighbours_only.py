"""A storage is counted again unless the tensor just before it had the same one."""


def unique_bytes(tensors):
    total, before = 0, None
    for t in tensors:
        storage = t.untyped_storage()
        if before is None or storage._cdata != before._cdata:
            total += storage.nbytes()
        before = storage
    return total
