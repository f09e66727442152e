"""Storages are told apart by the address of a tensor's first element.

hint: x.data_ptr() is the storage's address plus the offset.
"""


def unique_bytes(tensors):
    return sum(x.untyped_storage().nbytes() for x in {x.data_ptr(): x for x in tensors}.values())
