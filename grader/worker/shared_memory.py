"""Semaphores and shared memory for `multiprocessing` where /dev/shm belongs to the whole machine.

The C library keeps both as files in /dev/shm. A test must not write there, because other processes
could read its files, and nothing would count or remove them. `install` has the two modules that
`multiprocessing` uses keep the same things in the writable folder. Processes that are forked share
them. A process that is started anew (`spawn`, `forkserver`) has the C library's again, so its
semaphores are refused at once.
"""

import _multiprocessing  # type: ignore[import-not-found]
import _posixshmem  # type: ignore[import-not-found]
import ctypes
import mmap
import multiprocessing.heap
import os
import tempfile
from typing import Any, Self

IN_ALL_PROCESSES = 1
# Found now, because a test may not look up C functions where something is forbidden.
SEM_INIT = ctypes.CDLL(None, use_errno=True).sem_init


class SemLock(_multiprocessing.SemLock):  # type: ignore[misc]
    """A semaphore in a file of the writable folder, which has no name."""

    def __new__(cls, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> Self:
        if not unlink:  # as for processes that are forked, which need no name
            raise PermissionError(
                "here, only processes that are forked can share a lock or a queue: "
                'use multiprocessing.get_context("fork")'
            )
        with tempfile.TemporaryFile() as file:
            file.truncate(mmap.PAGESIZE)
            # It keeps the file open, without which the zygote could not find out its size.
            page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        start = ctypes.c_char.from_buffer(page)
        if SEM_INIT(ctypes.byref(start), IN_ALL_PROCESSES, value):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        made: Self = cls._rebuild(ctypes.addressof(start), kind, maxvalue, None)
        made._page = start
        return made


def _in_the_folder(name: str) -> str:
    return f"{tempfile.gettempdir()}/shm-{name.strip('/')}"


def shm_open(path: str, flags: int, mode: int = 0o777) -> int:
    """Open or create shared memory of this name."""
    return os.open(_in_the_folder(path), flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def shm_unlink(path: str) -> None:
    """Remove shared memory of this name."""
    os.unlink(_in_the_folder(path))


def install() -> None:
    """Let this process and those that it forks keep semaphores and shared memory in the folder."""
    _multiprocessing.SemLock = SemLock
    _posixshmem.shm_open, _posixshmem.shm_unlink = shm_open, shm_unlink
    arena: Any = multiprocessing.heap.Arena
    arena._dir_candidates = []  # else it would choose /dev/shm
