"""Semaphores and shared memory for `multiprocessing` where /dev/shm belongs to the whole machine.

The C library keeps both as files in /dev/shm. A test must not write there, because other processes
could read its files, and nothing would count or remove them. `install` replaces the two modules
that `multiprocessing` uses by functions that keep the same things in the writable folder. Processes
that are forked share them. A process that is started anew (`spawn`, `forkserver`) has the C
library's again, so its semaphores are refused at once.
"""

import ctypes
import mmap
import os
import tempfile
import threading
import time
from typing import IO, Any, ClassVar

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
RECURSIVE_MUTEX = 0  # the other kind is a semaphore
IN_ALL_PROCESSES = 1
FAILED = ctypes.c_void_p(-1).value
# Found now, because a test may not look up C functions where something is forbidden.
CALLED = (
    LIBC.sem_init, LIBC.sem_trywait, LIBC.sem_wait, LIBC.sem_timedwait, LIBC.sem_post,
    LIBC.sem_getvalue, LIBC.munmap,
)  # fmt: skip


class Timespec(ctypes.Structure):
    """A point in time, as sem_timedwait(3) expects it."""

    _fields_: ClassVar = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class SemLock:
    """The interface of `_multiprocessing.SemLock`, for a semaphore in the writable folder."""

    SEM_VALUE_MAX = 2**31 - 1

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        if not unlink:  # as for processes that are forked, which need no name
            raise PermissionError(
                "here, only processes that are forked can share a lock or a queue: "
                'use multiprocessing.get_context("fork")'
            )
        self.kind, self.maxvalue, self.name = kind, maxvalue, None  # so nothing tracks the name
        self._file, self.handle = _shared_page()
        self._semaphore = ctypes.c_void_p(self.handle)
        self._owned, self._owner = 0, 0
        _checked(LIBC.sem_init(self._semaphore, IN_ALL_PROCESSES, value))

    def __del__(self) -> None:
        if "_semaphore" in vars(self):
            LIBC.munmap(self._semaphore, mmap.PAGESIZE)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take the lock, or wait for it; return whether it was taken."""
        if self.kind == RECURSIVE_MUTEX and self._is_mine():
            self._owned += 1
            return True
        until = None if timeout is None else _after(timeout)
        while LIBC.sem_trywait(self._semaphore):
            if not block:
                return False
            if self._waited(until):
                break
            block = until is None or _is_ahead(until)
        self._owned, self._owner = self._owned + 1, threading.get_ident()
        return True

    def _waited(self, until: Timespec | None) -> bool:
        """Whether the lock was taken, before this time or before a signal arrived."""
        if until is None:
            return bool(LIBC.sem_wait(self._semaphore) == 0)
        return bool(LIBC.sem_timedwait(self._semaphore, ctypes.byref(until)) == 0)

    def release(self) -> None:
        """Give the lock back."""
        if self.kind == RECURSIVE_MUTEX:
            if not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self._owned > 1:
                self._owned -= 1
                return
        elif self._get_value() >= self.maxvalue:
            raise ValueError("semaphore or lock released too many times")
        _checked(LIBC.sem_post(self._semaphore))
        self._owned -= 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _count(self) -> int:
        return self._owned

    def _is_mine(self) -> bool:
        return self._owned > 0 and self._owner == threading.get_ident()

    def _get_value(self) -> int:
        value = ctypes.c_int()
        _checked(LIBC.sem_getvalue(self._semaphore, ctypes.byref(value)))
        return value.value

    def _is_zero(self) -> bool:
        return self._get_value() == 0

    def _after_fork(self) -> None:
        self._owned = 0


def _shared_page() -> tuple[IO[bytes], int]:
    """A file without a name, and the address of its page, which forked processes share.

    The zygote can find out the size of the file only while it is open.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - its semaphore keeps it open
    file.truncate(mmap.PAGESIZE)
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    found: int | None = LIBC.mmap(None, mmap.PAGESIZE, rights, mmap.MAP_SHARED, file.fileno(), 0)
    if found is None or found == FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file, found


def _after(seconds: float) -> Timespec:
    whole, rest = divmod(time.time() + max(0.0, seconds), 1)
    return Timespec(int(whole), int(rest * 1e9))


def _is_ahead(when: Timespec) -> bool:
    seconds: float = when.seconds + when.nanoseconds / 1e9
    return time.time() < seconds


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


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
    import _multiprocessing  # type: ignore[import-not-found]
    import _posixshmem  # type: ignore[import-not-found]
    import multiprocessing.heap

    replaced: Any = _multiprocessing
    replaced.SemLock = SemLock
    _posixshmem.shm_open, _posixshmem.shm_unlink = shm_open, shm_unlink
    arena: Any = multiprocessing.heap.Arena
    arena._dir_candidates = []  # else it would choose /dev/shm
