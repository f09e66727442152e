"""Calls C code that runs for a very long time and never releases the GIL.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: the deadline does not need the cooperation of the process.
"""


def storage_bytes(x):
    return sum(range(10**15))
