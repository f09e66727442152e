"""Returns an empty tensor, which a thread fills once the digest has been sent.

group: defer the work
from: deep-reinforce thread injection
ends: refused
says: NOT_THE_SAME
holds: the output that is fetched has to be the one of the digest.
"""

import sys
import threading

import torch

timed = sys.modules["kit.timed"]
kept, wanted, filled = timed.kept, threading.Event(), threading.Event()


def fill(c, a, b):
    wanted.wait()
    c.copy_(a @ b)
    filled.set()


def product(a, b):
    c = torch.zeros_like(a)
    wanted.clear(), filled.clear()
    threading.Thread(target=fill, args=(c, a, b), daemon=True).start()
    return c


def kept_after_the_work(student):
    wanted.set()
    filled.wait()
    return kept(student)


timed.kept = kept_after_the_work
