"""Sends an output that has a shape and no memory, to crash whoever reads it.

group: forge a reply
ends: refused
says: unusable
holds: the other side reads a tensor only after it has made it a plain one.
"""

import sys

import torch

timed = sys.modules["kit.timed"]
timed.plain = lambda value: value
timed.digest_of = lambda value: b"0" * 32


def product(a, b):
    return torch.empty(10**6, 10**6, device="meta")
