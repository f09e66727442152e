"""Computes the outputs of a thousand likely seeds in advance, by the course's own generator.

group: replay an answer
from: e9984e4 fixed seed
ends: refused
says: wrong values
holds: the inputs follow from 62 random bits that the sender draws when the clock starts.
"""

import sys

import torch

make = sys.modules["tests.probes.work"].matrices
known = {}
for seed in [*range(1000), 2**62 - 1]:
    a, b = make(torch.Generator().manual_seed(seed), "cpu", n=48)
    known[a[0, 0].item()] = (a, a @ b)


def product(a, b):
    before, output = known.get(a[0, 0].item(), (None, torch.zeros_like(a)))
    return output
