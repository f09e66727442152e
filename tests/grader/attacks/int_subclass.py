"""Returns integers of a subclass of int that compares equal to every number.

group: lie about types
target: tensor_memory
status: failed
holds: a subclass of int arrives as its plain integer value, whatever it claims to be.
"""


class Any(int):
    __hash__ = int.__hash__
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __repr__ = lambda self: "4"


def tensor_bytes(x):
    return Any(-1)


def storage_bytes(x):
    return [Any(-1)]


def unique_bytes(tensors):
    return {Any(-1): Any(-1)}
