"""Ends with SIGKILL, as what the kernel kills for want of memory does: its own, or that of a process it started.

group: survive or spread
target: tensor_memory
status: crashed
holds: a signal that it sent itself is the student's crash, and never a fault of the grader that keeps the score open.
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
