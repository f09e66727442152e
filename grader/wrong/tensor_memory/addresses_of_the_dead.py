"""Only addresses are kept, and an address is used again once its tensor is gone.

hint: what keeps the storages alive while they are counted?
"""


def unique_bytes(tensors):
    sizes = {}
    for x in tensors:
        sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
    return sum(sizes.values())
