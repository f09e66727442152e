"""Sleeps in its first calls, so that a benchmark makes fewer calls later.

group: tell calls apart
from: pygpubench warmup
takes: 1
ends: passed
holds: the number of calls is fixed, and calls before the clock change nothing.
"""

import time

calls = 0


def product(a, b):
    global calls
    calls += 1
    if calls == 1:
        time.sleep(0.01)
    return a @ b
