"""The number of windows lacks the 1 that is added.

is: last_window_missing
"""


def sliding_windows(x, size, step):
    n = x.numel()
    if n < size:
        raise ValueError("no window fits")
    s = x.stride(0)
    return x.as_strided(((n - size) // step, size), (s * step, s), x.storage_offset())
