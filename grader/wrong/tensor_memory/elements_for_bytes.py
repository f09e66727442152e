"""The storage is measured in elements.

hint: nbytes of the storage are bytes already.
"""


def storage_bytes(x):
    return x.untyped_storage().nbytes() // x.element_size()
