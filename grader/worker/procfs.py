"""What the kernel tells in /proc about the processes of a test.

A process chooses its own name, which appears in these files and need not be text, so every file is
read as bytes. Functions that are asked about a process that has ended find nothing.
"""

import errno
import os
import re
import resource
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

# Sizes of memory that is not backed by a file, in a process's status and, divided by the number of
# processes that have it, in its smaps_rollup.
NOT_FROM_FILES = re.compile(
    rb"^(?:Rss(?:Anon|Shmem)|VmSwap|HugetlbPages):\s*(\d+) kB", re.MULTILINE
)
SHARES = re.compile(
    rb"^(?:Pss_(?:Anon|Shmem)|SwapPss|(?:Shared|Private)_Hugetlb):\s*(\d+) kB", re.MULTILINE
)
HOLDS_DESCRIPTORS = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)
MAX_STATUS = 65536  # bytes of a file about a process
# How many mappings of all processes of a test are read: a process may make 65,530 or more, and
# reading those of 32 processes takes seconds, in which the zygote answers nobody.
MAX_MAPPINGS = 200_000
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
IS_EXITING = 0x4  # PF_EXITING in the kernel


def read(path: str) -> bytes:
    """The content of a file of /proc; `open` would take several times as long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, MAX_STATUS)
    finally:
        os.close(descriptor)


def status_of(pid: str) -> dict[bytes, bytes]:
    """The fields of a process's status."""
    lines = read(f"/proc/{pid}/status").splitlines()
    return dict(line.split(b":\t", 1) for line in lines if b":\t" in line)


def user_of(pid: str) -> int | None:
    """The user id that a process runs under; None after its end."""
    with suppress(OSError):
        return int(status_of(pid)[b"Uid"].split()[0])
    return None


def filters_of(pid: str) -> int:
    """How many seccomp filters a process has; 0 after its end."""
    with suppress(OSError):
        return int(status_of(pid)[b"Seccomp_filters"])
    return 0


def _stat(folder: str) -> list[bytes]:
    """The fields of a process or thread after its name, which may contain anything."""
    return read(f"{folder}/stat").rpartition(b")")[2].split()


def tasks(pid: str) -> list[tuple[int, str]]:
    """For each thread of a process, its CPU time in nanoseconds, and its state."""
    found = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{task}"
            nanoseconds = int(read(f"{folder}/schedstat").split()[0])
            found.append((nanoseconds, _stat(folder)[0].decode()))
    return found


def is_stopped(pid: str) -> bool:
    """Whether a signal has stopped all threads of a process."""
    return {state for _, state in tasks(pid)} == {"T"}


def is_exiting(pid: str) -> bool:
    """Whether all threads of a process are about to end, or have ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):
                if not int(_stat(f"/proc/{pid}/task/{task}")[6]) & IS_EXITING:
                    return False
    return True


def seconds_of(processes: list[str]) -> dict[tuple[str, bytes], tuple[float, float]]:
    """By id and start, the CPU time of each process, and of those that it has waited for."""
    found = {}
    for pid in processes:
        with suppress(OSError):
            about = _stat(f"/proc/{pid}")
            own, waited = (sum(map(int, times)) for times in (about[11:13], about[13:15]))
            found[pid, about[19]] = own / TICKS_A_SECOND, waited / TICKS_A_SECOND
    return found


def unnamed_files(processes: Iterable[str]) -> dict[int, int | None]:
    """The files without a name that these processes hold: their sizes on the disk, by inode.

    The size is None for a file that can only be seen to be mapped, and for each socket that holds
    descriptors which nobody has received.

    Raises:
        OSError: A process does not let itself be looked at, or there are too many mappings.
    """
    opened: dict[int, int | None] = {}
    mapped: set[int] = set()
    left = MAX_MAPPINGS
    for pid in processes:
        left_before = left
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            # Each thread may have descriptors of its own; all that live have the same memory.
            for task in os.listdir(f"/proc/{pid}/task"):
                folder = f"/proc/{pid}/task/{task}"
                try:
                    opened |= _opened(folder)
                    if left == left_before:
                        files, mappings = _mapped(folder, left)
                        mapped, left = mapped | files, left - mappings
                except PermissionError:
                    if not int(_stat(folder)[6]) & IS_EXITING:
                        raise
    return {**dict.fromkeys(mapped), **opened}


def _opened(folder: str) -> dict[int, int | None]:
    """What a process or thread has opened, for `unnamed_files`."""
    found: dict[int, int | None] = {}
    numbers = os.listdir(f"{folder}/fd")
    for link in ("exe", "cwd", *(f"fd/{number}" for number in numbers)):
        with suppress(FileNotFoundError):  # it has been closed
            about = os.stat(f"{folder}/{link}")
            if stat.S_ISSOCK(about.st_mode):
                if HOLDS_DESCRIPTORS.search(read(f"{folder}/fdinfo/{link[3:]}")):
                    found[-about.st_ino] = None
            elif not about.st_nlink:
                found[about.st_ino] = about.st_blocks * 512
    return found


def _mapped(folder: str, most: int) -> tuple[set[int], int]:
    """The inodes of files without a name in a thread's memory, and the number of its mappings."""
    files: set[int] = set()
    count = 0
    with open(f"{folder}/maps", "rb") as lines:
        for count, line in enumerate(lines, start=1):
            if line.endswith(b" (deleted)\n"):
                files.add(int(line.split()[4]))
            if count > most:
                raise OSError(errno.E2BIG, "too many mappings")
    return files, count


def own_bytes(pid: str) -> int:
    """Bytes of a process, in memory or swapped out, that are not backed by a file."""
    with suppress(OSError):
        for folder in _process_and_threads(pid):
            if size := _bytes_in(f"{folder}/status", NOT_FROM_FILES):
                return size
    return 0


def share_bytes(pid: str) -> int:
    """A process's share of its `own_bytes`: of what n processes have, 1/n.

    All of it, if the process does not let itself be looked at. This takes milliseconds.
    """
    with suppress(OSError):
        for folder in _process_and_threads(pid):
            with suppress(FileNotFoundError, ProcessLookupError):  # this thread has ended
                return _bytes_in(f"{folder}/smaps_rollup", SHARES)
    return own_bytes(pid)


def _process_and_threads(pid: str) -> Iterator[str]:
    """The folder of a process, and those of its threads, of which the first may have ended."""
    yield f"/proc/{pid}"
    for thread in os.listdir(f"/proc/{pid}/task"):
        yield f"/proc/{pid}/task/{thread}"


def _bytes_in(path: str, sizes: re.Pattern[bytes]) -> int:
    """The sum of these sizes in a file."""
    return sum(map(int, sizes.findall(read(path)))) * 1024


def resident_bytes() -> int:
    """Resident bytes of this process, including shared ones.

    The kernel counts the memory of a process that has exited in the same way.
    """
    return int(read("/proc/self/statm").split()[1]) * resource.getpagesize()
