"""Storages are compared by the address of the tensors' first elements.

hint: data_ptr() of a tensor is the storage's address plus the offset.
"""


def shares_storage(a, b):
    return a.data_ptr() == b.data_ptr()
