"""Returns a view of a storage that is computed when the output is asked for.

group: defer the work
ends: refused
says: NOT_THE_SAME
holds: later changes of a storage change the digest.
"""

import sys

import torch

timed = sys.modules["kit.timed"]
kept, last = timed.kept, {}


def product(a, b):
    last.update(a=a, b=b, storage=torch.zeros(a.numel()))
    return last["storage"].view(a.shape)


def kept_after_the_work(student):
    last["storage"].copy_((last["a"] @ last["b"]).flatten())
    return kept(student)


timed.kept = kept_after_the_work
