"""Sleeps in its first calls, and returns NaN in all others.

group: tell calls apart
from: pygpubench combined
ends: refused
says: NaN
holds: each call may be checked, and a NaN agrees with nothing.
"""

import time

import torch

calls = 0


def product(a, b):
    global calls
    calls += 1
    if calls > 3:
        return torch.full(a.shape, float("nan"))
    time.sleep(0.001)
    return a @ b
