"""Only the largest storage of all is counted."""


def unique_bytes(tensors):
    return max((t.untyped_storage().nbytes() for t in tensors), default=0)
