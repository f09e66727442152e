"""Stops its own process, which then neither runs nor exits.

group: survive or spread
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: a stopped process is killed like any other.
"""

import os
import signal


def storage_bytes(x):
    os.kill(os.getpid(), signal.SIGSTOP)
