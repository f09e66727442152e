"""Calls itself for ever, with the limit on recursion lifted.

group: exhaust the host
target: tensor_memory
status: crashed, failed, memory
holds: a stack that overflows ends one process.
"""

import sys

sys.setrecursionlimit(10**9)


class Endless:
    def __repr__(self):
        return repr(self)


def tensor_bytes(x):
    return repr(Endless())


storage_bytes = unique_bytes = tensor_bytes
