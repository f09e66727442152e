"""Computes on a stream of its own that nobody waits for.

group: defer the work
from: KernelBench non_default_stream; deep-reinforce stream injection
device: stand-in
takes: 1
ends: passed
holds: every stream has finished before the digest is made, so this work is within the clock.
"""

import torch


def product(a, b):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return a @ b
