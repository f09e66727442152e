"""Tries every way to read the memory and the descriptors of the process that started it.

group: read the answers
target: tensor_memory
tests: storage_bytes
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
zygote = os.getppid()
got = []
for file in ("mem", "maps", "smaps", "environ", "syscall", "stack", "auxv"):
    try:
        with open(f"/proc/{zygote}/{file}", "rb") as f:
            got += [file] if f.read(1) else []
    except OSError:
        pass
for folder in ("fd", "map_files", "root/", "cwd/", "task"):
    try:
        got.append(
            os.listdir(f"/proc/{zygote}/{folder}") if folder != "task" or zygote > 1 else 1 / 0
        )
    except (OSError, ArithmeticError):
        pass
got += ["ptrace"] * (libc.ptrace(16, zygote, 0, 0) == 0)
got += ["process_vm_readv"] * (
    libc.syscall(310 if x86 else 270, zygote, vector, 1, vector, 1, 0) >= 0
)
got += ["pidfd_getfd"] * (libc.syscall(438, os.pidfd_open(zygote), 3, 0) >= 0)
raise LookupError(f"BREACH: {got}" if got else "nothing")
