"""Looks into the memory and the descriptors of the process that started it, in every way there is.

group: read the answers
target: tensor_memory
status: failed
holds: another process's memory cannot be read, written, traced or even listed.
"""

import ctypes
import os
import platform

libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
got = []
for file in ("mem", "maps", "smaps", "environ", "syscall", "stack", "auxv"):
    try:
        with open(f"/proc/1/{file}", "rb") as f:
            got += [file] if f.read(1) else []
    except OSError:
        pass
for folder in ("/proc/1/fd", "/proc/1/map_files", "/proc/1/root/", "/proc/1/cwd/"):
    try:
        got.append(os.listdir(folder))
    except OSError:
        pass
got += ["ptrace"] * (libc.ptrace(16, 1, 0, 0) == 0)
got += ["process_vm_readv"] * (libc.syscall(310 if x86 else 270, 1, vector, 1, vector, 1, 0) >= 0)
got += ["pidfd_getfd"] * (libc.syscall(438, os.pidfd_open(1), 3, 0) >= 0)
raise LookupError(f"BREACH: {got}" if got else "nothing")
