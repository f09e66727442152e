"""Tries to read or stop the processes outside, and to find a key in its own memory.

group: read a secret
from: pygpubench aes_key_recovery; pygpubench proc_mem_bypass; pygpubench ptrace
ends: refused
says: wrong values
holds: other processes cannot be read, and there is no key to find.
"""

import ctypes
import os

import torch

libc = ctypes.CDLL(None, use_errno=True)
for pid in {1, os.getppid()}:
    if libc.ptrace(16, pid, 0, 0) == 0:
        raise RuntimeError("BREACH: ptrace")
    try:
        with open(f"/proc/{pid}/mem", "rb") as memory, open(f"/proc/{pid}/maps") as maps:
            memory.seek(int(maps.readline().split("-")[0], 16))
            memory.read(16)
    except (OSError, ValueError):
        continue
    raise RuntimeError("BREACH: memory")


def product(a, b):
    return torch.zeros_like(a)
