"""Calls C code that runs for ages and never lets go of the interpreter.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
status: timeout
holds: nothing in the process has to cooperate in its end.
"""


def storage_bytes(x):
    return sum(range(10**15))
