"""Two tensors share a storage if they are views of the same base tensor.

hint: the base, too, shares its storage with its views.
"""


def shares_storage(a, b):
    return a is b or (a._base is not None and a._base is b._base)
