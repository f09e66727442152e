"""Allocates shared anonymous memory, which belongs to no single process, in several processes.

group: exhaust the host
target: tensor_memory
limits: memory_bytes=268435456
tests: storage_bytes_of_another_dtype
status: memory
holds: shared memory counts towards the limit too.
"""

import mmap
import os
import time


def storage_bytes(x):
    kept = []
    for _ in range(4):
        if os.fork() == 0:
            kept.append(mmap.mmap(-1, 120 * 2**20))
            for page in range(0, 120 * 2**20, 4096):
                kept[-1][page] = 1
            time.sleep(60)
    time.sleep(60)
