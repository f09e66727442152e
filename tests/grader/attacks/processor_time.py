"""Burns processor time in a process of its own, and waits for it.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=30 cpu_seconds=1
status: timeout, crashed
holds: each process has a limit of processor time, which a handler does not lift.
"""

import os
import signal


def storage_bytes(x):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass
