"""Prints for ever.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
status: timeout
holds: reading it does not keep the grader from the deadline.
"""


def storage_bytes(x):
    while True:
        print("passed " * 1000)
