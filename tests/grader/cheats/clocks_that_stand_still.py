"""Replaces the functions of Python that tell the time.

group: change the clock
from: deep-reinforce monkey-patched timing; #162 patched timer
takes: 3
ends: too slow
holds: the clock is in another process.
"""

import time

for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, f"{name}_ns", lambda: 0)


def product(a, b):
    return a @ b
