"""Computes in functions that run when the process ends.

group: defer the work
ends: refused
says: wrong values
holds: what happens after the digest does not change the output.
"""

import atexit
import weakref

import torch


def product(a, b):
    c = torch.zeros_like(a)
    atexit.register(torch.matmul, a, b, out=c)
    weakref.finalize(a, c.add_, 1)
    return c
