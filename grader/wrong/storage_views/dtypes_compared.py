"""Tensors of two dtypes are said to share nothing.

hint: a storage holds bytes, and x.view(dtype) reads them in another way.
"""


def shares_storage(a, b):
    return a.dtype == b.dtype and a.untyped_storage()._cdata == b.untyped_storage()._cdata
