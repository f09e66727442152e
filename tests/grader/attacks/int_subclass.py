"""Returns integers of a type that compares as equal to every number.

group: lie about types
target: tensor_memory
status: failed
holds: only exactly int is an integer.
"""


class Any(int):
    __hash__ = int.__hash__
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __repr__ = lambda self: "4"


def tensor_bytes(x):
    return Any(0)


def storage_bytes(x):
    return [Any(0)]


def unique_bytes(tensors):
    return {Any(0): Any(0)}
