"""Storages of equal size are taken for one.

hint: equal sizes do not make one storage.
"""


def unique_bytes(tensors):
    return sum({x.untyped_storage().nbytes() for x in tensors})
