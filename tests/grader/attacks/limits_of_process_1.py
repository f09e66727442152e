"""Lowers the limits and the priority of the process that every later test is forked from.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: failed
holds: it can change only its own limits.
"""

import ctypes
import os
import platform
import resource

zygote = os.getppid()
x86 = platform.machine() == "x86_64"
attempts = {
    f"limit {n}": lambda n=n: resource.prlimit(zygote, n, (1, 1))
    for n in range(resource.RLIM_NLIMITS if hasattr(resource, "RLIM_NLIMITS") else 16)
}
attempts |= {
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, zygote, 19),
    "priority of the user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
    "processors": lambda: os.sched_setaffinity(zygote, {min(os.sched_getaffinity(0))}),
    "scheduler": lambda: os.sched_setscheduler(zygote, os.SCHED_IDLE, os.sched_param(0)),
    "ioprio": lambda: (
        None if ctypes.CDLL(None).syscall(251 if x86 else 30, 1, zygote, 3 << 13) == 0 else 1 / 0
    ),
    "oom": lambda: open(f"/proc/{zygote}/oom_score_adj", "w").write("1000"),
    "name": lambda: open(f"/proc/{zygote}/comm", "w").write("x"),
    "slack": lambda: open(f"/proc/{zygote}/timerslack_ns", "w").write("1"),
}
got = []
for name, attempt in attempts.items():
    try:
        attempt()
        got.append(name)
    except (OSError, ValueError, ArithmeticError):
        pass
raise LookupError(f"BREACH: {got}" if got else "nothing")
