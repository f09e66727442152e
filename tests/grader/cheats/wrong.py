"""Fills its output with zeros.

group: skip the work
from: pygpubench wrong
ends: refused
says: wrong values
holds: fast and wrong code earns nothing.
"""

import torch


def product(a, b):
    return torch.zeros_like(a)
