"""Returns memory that the next call fills, whose time is then the time of two calls.

group: defer the work
ends: refused
says: wrong values
holds: an output is fetched before the next call begins.
"""

import torch

left = []


def product(a, b):
    for x, y, z in left:
        torch.matmul(x, y, out=z)
    left.clear()
    c = torch.zeros_like(a)
    left.append((a, b, c))
    return c
