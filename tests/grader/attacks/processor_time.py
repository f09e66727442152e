"""Burns CPU time, and ignores the signal that its limit sends.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=30 cpu_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout, crashed
holds: each process has a CPU time limit, which a signal handler cannot lift.
"""

import os
import signal


def storage_bytes(x):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass
