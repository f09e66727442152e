"""Prints forever.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: reading the output does not delay the deadline.
"""


def storage_bytes(x):
    while True:
        print("passed " * 1000)
