"""Runs programs, each of which holds no more than the zygote did when this process was forked.

group: exhaust the host
target: tensor_memory
limits: memory_bytes=268435456
tests: storage_bytes_is_the_whole_storage
status: memory
holds: a process that shares no memory with the zygote gets none for free.
"""

import os
import subprocess
import sys
import time

_HOLD = "import time; x = bytearray(120 << 20); x[::4096] = b'x' * len(x[::4096]); print(1, flush=True); time.sleep(60)"  # noqa: E501


def storage_bytes(x):
    program = [sys.executable, "-S", "-I", "-c", _HOLD]
    started = [subprocess.Popen(program, stdout=subprocess.PIPE) for _ in range(5)]
    for process in started:
        process.stdout.readline()
    end = time.monotonic() + 1  # many looks of the zygote
    while time.monotonic() < end:
        os.getpid()
    return -1
