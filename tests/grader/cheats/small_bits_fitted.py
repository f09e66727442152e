"""Sends a digest at once, and looks for an output within the tolerance that has this digest.

group: change the digest
ends: refused
says: NOT_THE_SAME
holds: for a cryptographic digest, a search of low bits finds nothing; for a sum, it would.
"""

import sys

import torch

timed = sys.modules["kit.timed"]
whole, last = timed.digest_of, []
sent = whole(torch.zeros(48, 48))
timed.digest_of = lambda value: sent


def product(a, b):
    last[:] = a, b
    return 0


def fitted(student):
    c = last[0] @ last[1]
    for step in range(300):
        near = c.clone()
        near[0, 0] += step * 1e-6
        if whole(near) == sent:
            raise RuntimeError("BREACH")
    return near


timed.kept = fitted
