"""Spreads its memory over several processes, each of which stays below the limit.

group: exhaust the host
target: tensor_memory
limits: memory_bytes=268435456
tests: storage_bytes_is_the_whole_storage
status: memory
holds: the memory limit applies to all processes together.
"""

import os
import time


def storage_bytes(x):
    for _ in range(8):
        if os.fork() == 0:
            keep = bytearray(100 * 2**20)
            time.sleep(60)
    time.sleep(60)
