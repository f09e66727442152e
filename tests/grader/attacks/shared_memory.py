"""Allocates shared anonymous memory, which belongs to no single process, in several processes.

group: exhaust the host
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: failed
holds: shared memory without a file is refused, because a process can drop such pages and keep them.
"""

import ctypes
import mmap
import os
import time

MIB = 2**20
MADV_DONTNEED, MADV_POPULATE_WRITE = 4, 23
libc = ctypes.CDLL(None)


def hold(size):
    """Memory in pages that are written, and then leave the process's own count."""
    kept = mmap.mmap(-1, size)
    start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(kept)))
    for advice in (MADV_POPULATE_WRITE, MADV_DONTNEED):
        libc.madvise(start, ctypes.c_size_t(size), advice)
    time.sleep(60)


def storage_bytes(x):
    for _ in range(4):
        if os.fork() == 0:
            hold(120 * MIB)
    time.sleep(60)
