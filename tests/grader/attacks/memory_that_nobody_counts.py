"""Requests memory that outlives a process or escapes its limits: memfd, System V, POSIX queues, /dev/shm, secret memory.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
status: failed
holds: no such memory can be allocated.
"""

import ctypes
import os
import platform

x86 = platform.machine() == "x86_64"
syscall = ctypes.CDLL(None).syscall
calls = {
    "memfd_create": (319 if x86 else 279, b"x", 0), "memfd_secret": (447, 0), "shmget": (29 if x86 else 194, 0, 4096, 0o1600),
    "msgget": (68 if x86 else 186, 0, 0o1600), "semget": (64 if x86 else 190, 0, 1, 0o1600),
    "mq_open": (240 if x86 else 180, b"attack-escaped", 0o102, 0o600, None),
}  # fmt: skip
got = [name for name, arguments in calls.items() if syscall(*arguments) >= 0]
for folder in ("/dev/shm", "/dev/mqueue", "/run", "/var/tmp", "/dev", "/"):
    try:
        open(f"{folder}/attack-escaped", "w").close()
        got.append(folder)
    except OSError:
        pass
raise LookupError(f"BREACH: {got}" if got else "nothing")
