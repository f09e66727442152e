"""Sends SIGKILL to itself or to its own processes, which would look like the kernel's out-of-memory killer.

group: survive or spread
target: tensor_memory
tests: tensor_bytes_counts_what_a_view_shows | storage_bytes_is_the_whole_storage | unique_bytes_counts_views_once
status: failed
holds: a submission cannot send SIGKILL, so its end counts as its own, and never as a grader fault that leaves the score pending.
"""

import os
import signal

first = os.getpid()


def tensor_bytes(x):
    os.kill(os.getpid(), signal.SIGKILL)


def storage_bytes(x):
    kept = bytearray(2**28)
    if os.fork() == 0:
        os.kill(first, signal.SIGKILL)
    while kept:
        pass


def unique_bytes(tensors):
    for _ in range(8):
        if os.fork() == 0:
            os.kill(-1, signal.SIGKILL)
    while True:
        pass
