"""Every tensor is added, whatever storage it shows.

hint: are two windows on one storage counted twice?
"""


def unique_bytes(tensors):
    return sum(x.untyped_storage().nbytes() for x in tensors)
