"""Returns objects that compare equal to everything and claim to have any type.

group: lie about types
target: tensor_memory
status: failed
holds: an object that is not plain data arrives as the name of its type.
"""


class Right:
    __class__ = property(lambda self: int)
    __hash__ = lambda self: 0

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __reduce__(self):
        return exec, ("raise SystemExit",)

    __sub__ = __rsub__ = __abs__ = __index__ = __int__ = __float__ = lambda self, *other: 0
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = __eq__


def tensor_bytes(x):
    return Right()


storage_bytes = unique_bytes = tensor_bytes
