"""The sum runs over the list and not over the set of storages.

is: tied_counted_twice
"""


def unique_bytes(tensors):
    return sum(len(t.untyped_storage()) for t in tensors)
