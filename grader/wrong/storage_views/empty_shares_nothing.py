"""A tensor without elements is said to share nothing.

hint: what does x[n:] keep in memory?
"""


def shares_storage(a, b):
    return a.numel() > 0 and b.numel() > 0 and a.untyped_storage()._cdata == b.untyped_storage()._cdata
