"""Collects the calls, returns placeholders, and computes five products at once.

group: replay an answer
from: #104 batch and skip
ends: refused
says: wrong values
holds: the inputs of the next call do not exist before the digest of this one has arrived.
"""

import torch

waiting = []


def product(a, b):
    c = torch.zeros_like(a)
    waiting.append((a, b, c))
    if len(waiting) == 5:
        outputs = torch.stack([a for a, _, _ in waiting]) @ torch.stack([b for _, b, _ in waiting])
        for (_, _, placeholder), output in zip(waiting, outputs):
            placeholder.copy_(output)
        waiting.clear()
    return c
