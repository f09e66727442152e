"""The windows do not overlap: step is not used but size."""


def sliding_windows(x, size, step):
    if size > len(x):
        raise ValueError("no window fits")
    return x.unfold(0, size, size)
