"""Calls itself forever, with the recursion limit lifted.

group: exhaust the host
target: tensor_memory
status: crashed, failed, memory
holds: a stack overflow ends only one process.
"""

import sys

sys.setrecursionlimit(10**9)


class Endless:
    def __repr__(self):
        return repr(self)


def tensor_bytes(x):
    return repr(Endless())


storage_bytes = unique_bytes = tensor_bytes
