"""Forks, and its children fork too.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: crashed, timeout, failed
holds: the number of processes is limited, and all of them end with the test.
"""

import os


def storage_bytes(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
