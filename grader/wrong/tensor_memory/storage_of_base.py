"""The storage is taken to be what the base of a view shows.

hint: a view may have no _base, and its base may be a view of more.
"""


def storage_bytes(x):
    base = x if x._base is None else x._base
    return base.numel() * base.element_size()
