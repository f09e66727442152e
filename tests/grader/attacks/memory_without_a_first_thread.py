"""Ends the first thread of each process, after which the kernel reports no memory for that process, and allocates in the second.

group: exhaust the host
target: tensor_memory
limits: memory_bytes=268435456
tests: storage_bytes_is_the_whole_storage
status: memory
holds: the memory of the remaining threads is counted.
"""

import ctypes
import os
import platform
import threading
import time


def grow():
    time.sleep(0.3)
    keep = bytearray(100 * 2**20)
    time.sleep(60)


def storage_bytes(x):
    for _ in range(6):
        if os.fork() == 0:
            threading.Thread(target=grow).start()
            ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
    time.sleep(60)
