"""Slows down every function of torch, except while its own function runs.

group: tell calls apart
takes: 3
ends: too slow
holds: the reference runs in a process that has never run this code.
"""

import sys
import time

import torch

if any("solutions" in str(getattr(m, "__file__", "")) for m in list(sys.modules.values())):
    raise RuntimeError("BREACH: the reference is here")
matmul = torch.Tensor.__matmul__


def slow(a, b):
    time.sleep(0.001)
    return matmul(a, b)


torch.Tensor.__matmul__ = torch.matmul = torch.mm = slow


def product(a, b):
    return matmul(a, b)
