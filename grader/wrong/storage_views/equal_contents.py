"""Storages are compared by their bytes.

hint: a copy has equal bytes in a storage of its own.
"""


def shares_storage(a, b):
    return a.untyped_storage().tolist() == b.untyped_storage().tolist()
