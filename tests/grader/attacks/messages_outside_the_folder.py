"""Sets what any user may set on the machine's devices and shared files, and asks for what the kernel notes of them.

group: survive or spread
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: failed
ordinary: the files of that user's box belong to the user, and so to the student's code.
holds: no time of a device or shared file changes, and nothing can be noted at them, watched or counted.
"""

import contextlib
import ctypes
import fcntl
import os
import socket

DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
PATHS = [*DEVICES, *{line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line}, "/etc/passwd"]
SO_COOKIE, F_SET_RW_HINT, F_SET_FILE_RW_HINT = 57, 1036, 1038
libc = ctypes.CDLL(None, use_errno=True)
breaches = []


def times(path):
    with contextlib.suppress(FileNotFoundError):
        state = os.stat(path)
        return state.st_mtime_ns, state.st_ctime_ns, state.st_mode


def succeeds(act, *arguments):
    with contextlib.suppress(OSError):
        return act(*arguments) is not False
    return False


def possible(what, act, *arguments):
    """Note that something is possible that must not be."""
    if succeeds(act, *arguments):
        breaches.append(what)


def set_everything(path, number):
    for target in (path, number):
        for act in (
            lambda: os.utime(target),
            lambda: os.utime(target, (1, 1)),
            lambda: os.chown(target, -1, -1),
            lambda: os.chown(target, os.getuid(), os.getgid()),
            lambda: os.chmod(target, 0o644),
            lambda: os.setxattr(target, "user.message", b"x"),
            lambda: os.truncate(target, 0),
        ):
            succeeds(act)


before = {path: times(path) for path in PATHS}
for path in PATHS:
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        set_everything(path, number)
        possible(f"a lease of {path}", fcntl.fcntl, number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        for hint in (F_SET_RW_HINT, F_SET_FILE_RW_HINT):
            possible(f"a hint for {path}", fcntl.fcntl, number, hint, bytes([3, *[0] * 7]))
        page = bytearray(1)
        if hasattr(os, "RWF_NOWAIT"):
            possible(f"pages of {path}", os.preadv, number, [page], 0, os.RWF_NOWAIT)
        os.close(number)
    with contextlib.suppress(OSError):
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        possible(f"notes about {path}", fcntl.fcntl, folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS)
        os.close(folder)
breaches += [path for path, state in before.items() if times(path) != state]
possible("a watch", lambda: libc.inotify_init1(0) >= 0)
one, other = socket.socketpair()
possible("a cookie", one.getsockopt, socket.SOL_SOCKET, SO_COOKIE, 8)
for name in ("vmstat", "stat", "interrupts", "locks", "loadavg", "sys/fs/file-nr", "pressure/cpu"):
    possible(name, open, f"/proc/{name}")
raise LookupError(f"BREACH: {breaches}" if breaches else "nothing")
