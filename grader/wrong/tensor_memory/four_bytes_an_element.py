"""Every element takes four bytes.

hint: does it ask the dtype for its size?
"""


def tensor_bytes(x):
    return 4 * x.numel()
