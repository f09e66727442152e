"""x is given another dimension in place and keeps it.

hint: an operation whose name ends in _ changes its tensor.
"""


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError(f"size {size} does not fit {len(x)} elements")
    return x.unsqueeze_(0).unfold(1, size, step)[0]
