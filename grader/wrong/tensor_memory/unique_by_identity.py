"""Tensors are told apart by id, so that a view counts again.

hint: a view is another tensor object on the same storage.
"""


def unique_bytes(tensors):
    return sum(x.untyped_storage().nbytes() for x in {id(x): x for x in tensors}.values())
