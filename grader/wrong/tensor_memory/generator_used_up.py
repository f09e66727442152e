"""The tensors are gone through twice, which leaves nothing of a generator.

hint: can its input be gone through twice?
"""


def unique_bytes(tensors):
    if not list(tensors):
        return 0
    return sum({x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in list(tensors)}.values())
