"""Sends an output that shows one number a million times, so that reading it in order leaves it.

group: forge a reply
ends: refused
says: NOT_THE_SAME
holds: the other side reads a tensor only after it has made it a plain one.
"""

import sys

import torch

timed = sys.modules["kit.timed"]
frame = sys._getframe()
while "has_begun" not in frame.f_locals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]
plain_encode = protocol.encode
protocol.encode = lambda value, **options: plain_encode(value, **{**options, "views": True})
timed.plain = lambda value: value
timed.digest_of = lambda value: b"0" * 32


def product(a, b):
    return torch.zeros(1).expand(1000, 1000)
