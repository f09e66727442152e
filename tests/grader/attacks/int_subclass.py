"""Returns integers of a type that compares as equal to every number.

group: lie about types
target: tensor_memory
status: failed
holds: a subclass of int arrives as the int that it was made from, whatever it says of itself.
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
