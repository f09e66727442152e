"""Tries to create namespaces of its own, in which it would be root.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: failed
holds: every way to create a namespace is closed.
"""

import ctypes
import os
import platform

x86 = platform.machine() == "x86_64"
syscall = ctypes.CDLL(None).syscall
got = []
for flag in (
    0x10000000,
    0x00020000,
    0x20000000,
    0x40000000,
    0x08000000,
    0x04000000,
    0x02000000,
    0x00000080,
):
    got += [("unshare", hex(flag))] * (syscall(272 if x86 else 97, flag) == 0)
    pid = 1 if flag == 0x80 else syscall(56 if x86 else 220, flag | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    got += [("clone", hex(flag))] * (pid > 1)
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
pid = syscall(435, arguments, 64)
if pid == 0:
    os._exit(0)
got += ["clone3"] * (pid > 0)
for name in ("user", "mnt", "pid", "net"):
    try:
        got += ["setns"] * (
            syscall(308 if x86 else 268, os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0) == 0
        )
    except OSError:
        pass
for path in ("uid_map", "setgroups"):
    try:
        open(f"/proc/self/{path}", "w").write("0 0 1")
        got.append(path)
    except OSError:
        pass
raise LookupError(f"BREACH: {got}" if got else "nothing")
