"""Forks, and so do its children.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
status: crashed, timeout, failed
holds: processes have a limit, and all of them end with the test.
"""

import os


def storage_bytes(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
