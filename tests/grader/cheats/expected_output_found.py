"""Looks for the expected output among all objects of this process, and returns it.

group: read a secret
from: pygpubench gc_copy
ends: refused
says: wrong values
holds: no expected output is in this process.
"""

import gc

import torch


def product(a, b):
    found = [x for x in gc.get_objects() if type(x) is torch.Tensor and x.shape == a.shape]
    others = [x for x in found if x is not a and x is not b]
    return others[-1] if others else torch.zeros_like(a)
