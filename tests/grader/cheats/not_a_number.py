"""Overwrites every tensor that the garbage collector knows with NaN, and returns NaN.

group: skip the work
from: pygpubench gc_nan
ends: refused
says: NaN
holds: no expected value is in this process, and a NaN agrees with nothing.
"""

import gc

import torch


def product(a, b):
    for x in gc.get_objects():
        if type(x) is torch.Tensor and x.is_floating_point():
            x.fill_(float("nan"))
    return torch.full(a.shape, float("nan"))
