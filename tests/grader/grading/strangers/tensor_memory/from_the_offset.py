"""The bytes before the tensor's first element are not counted to the storage."""


def storage_bytes(x):
    whole = x.untyped_storage().size()
    return whole - x.storage_offset() * x.itemsize
