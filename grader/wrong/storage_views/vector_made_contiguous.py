"""A vector with a stride is copied before its windows are taken.

hint: x's own stride can be used.
"""


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError(f"size {size} does not fit {len(x)} elements")
    return x.contiguous().unfold(0, size, step)
