"""A vector with a stride is copied before its windows are taken.

hint: x's own stride can be used.
"""


def sliding_windows(x, size, step):
    if size < 1 or step < 1 or size > len(x):
        raise ValueError(f"size {size} or step {step} does not fit {len(x)} elements")
    return x.contiguous().unfold(0, size, step)
