"""Computes in a callback of the garbage collector, which it turns off while the clock runs.

group: defer the work
ends: refused
says: NOT_THE_SAME
holds: the time of the collector does not matter, because its results come too late.
"""

import gc
import sys

import torch

timed = sys.modules["kit.timed"]
kept, left = timed.kept, []
gc.disable()


def collected(phase, info):
    while left:
        a, b, c = left.pop()
        c.copy_(a @ b)


gc.callbacks.append(collected)


def product(a, b):
    c = torch.zeros_like(a)
    left.append((a, b, c))
    return c


def kept_after_a_collection(student):
    gc.collect()
    return kept(student)


timed.kept = kept_after_a_collection
