"""The bytes of a tensor are those of its storage.

hint: a view may show fewer elements than its storage holds, or more.
"""


def tensor_bytes(x):
    return x.untyped_storage().nbytes()
