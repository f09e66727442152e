"""Overwrites what the test keeps in memory: its counters, and the last output, again and again.

group: change the surroundings
from: pygpubench error_counter; pygpubench test_canary_direct; pygpubench test_canary_make_writeable
ends: refused
says: NOT_THE_SAME
holds: no count, no limit and no verdict is in this process, and an output that changes is refused.
"""

import sys
import threading

import torch

timed = sys.modules["kit.timed"]
kept = timed.kept
for name in ("kit.speed", "kit.ratio", "kit.expect"):
    if name in sys.modules:
        raise RuntimeError("BREACH: the rule is here")


def product(a, b):
    return a @ b


def overwritten(student):
    def overwrite():
        timed._Last.output = torch.zeros(48, 48)

    thread = threading.Thread(target=overwrite)
    thread.start()
    thread.join()
    return kept(student)


timed.kept = overwritten
