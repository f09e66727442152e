"""Computes on a stream of its own, and replaces every function that could wait for it.

group: defer the work
device: stand-in
ends: refused
says: wrong values | NaN
holds: without a wait, the digest is that of unwritten memory.
"""

import torch


def nothing(*args, **kwargs):
    pass


class Late:
    """The work of a stream that runs when somebody fetches the output."""


def product(a, b):
    torch.cuda.synchronize = torch.accelerator.synchronize = nothing
    side = torch.cuda.Stream()
    type(side).synchronize = nothing
    c = torch.zeros_like(a)
    with torch.cuda.stream(side):
        c.copy_(a @ b)
    side.done = len(side.given)  # as if it had run
    c.zero_()
    return c
