"""Sleeps, and starts sleeping again when it is woken.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
status: timeout
holds: a process that uses nothing has a deadline as well.
"""

import time


def storage_bytes(x):
    while True:
        time.sleep(10**6)
