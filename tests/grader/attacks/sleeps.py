"""Sleeps, and sleeps again when it is woken.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: the deadline also applies to a process that uses no CPU time.
"""

import time


def storage_bytes(x):
    while True:
        time.sleep(10**6)
