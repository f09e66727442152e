"""States that a box might change and others might see. This module runs in a box.

Each class is one state, and its docstring the name of its row in SECURITY.md, which says who may
see it. `see` looks at it, and `change` changes it and says whether it could. A state that cannot be
looked at is None. A state with a `STEP` is a counter, which others may move, too: it has changed if
it has grown by as much. What is in HELD stays until the process ends.
"""

import ctypes
import fcntl
import itertools
import mmap
import os
import socket
import struct
import tempfile
import threading
import time
from contextlib import suppress

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {  # of system calls that the C library may not have: x86_64, aarch64
    "futex": (202, 98), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
}  # fmt: skip
TMP = tempfile.gettempdir()
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
TOKEN = 0  # replaced by a number that no other run of the tests has
# A folder that all boxes share, a file in it that all use, and one that this run has chosen.
with open("/proc/self/maps") as maps:
    SHARED = next(line.split()[-1] for line in maps if "/libc." in line)
FOLDER = os.path.dirname(SHARED)
BESIDE = [f"{FOLDER}/{name}" for name in sorted(os.listdir(FOLDER))]
LARGE = [p for p in BESIDE if not os.path.islink(p) and os.path.isfile(p)]
LARGE = [path for path in LARGE if os.stat(path).st_size > 2**18]
CHOSEN, PLACE = LARGE[TOKEN % len(LARGE)], TOKEN % 1024
MARK, MODE, NAME = 1_000_000_007, 0o1745, "attack-escaped"
HELD = []


def syscall(name, *arguments):
    """Make a call, and return what it returns.

    Raises:
        OSError: The call fails.
    """
    number = NUMBERS[name][os.uname().machine == "aarch64"]
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if number is None or (result := LIBC.syscall(number, *longs)) < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def done(act, *things):
    """Act on each of these; return whether any of it was possible."""
    count = 0
    for thing in things:
        with suppress(OSError):
            act(thing)
            count += 1
    return count > 0


def stats(paths, *fields):
    """These fields of each path's status."""
    return [[getattr(os.lstat(path), field) for field in fields] for path in paths]


def opened(path, flags=os.O_RDONLY):
    """Open a file until this process ends."""
    HELD.append(os.open(path, flags))
    return HELD[-1]


def read(path):
    """Read the first byte of a file."""
    with open(path, "rb", buffering=0) as f:
        return f.read(1)


class Times:
    """times of devices and shared files"""

    def see():
        found = stats([*DEVICES, SHARED], "st_mtime_ns", "st_ctime_ns")
        return found + stats(DEVICES, "st_atime_ns")

    def change():
        def mapped(path):
            return mmap.mmap(opened(path), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)[0]

        tried = [done(read, *DEVICES), done(mapped, "/dev/zero"), done(os.utime, *DEVICES, SHARED)]
        tried.append(done(lambda p: os.utime(p, (MARK, MARK)), *DEVICES))
        tried.append(done(lambda p: os.utime(opened(p)), *DEVICES))
        for call in (["utime"], ["utimes"], ["futimesat", -100]):
            tried.append(done(lambda p, c=call: syscall(*c, p.encode(), None), *DEVICES))
        return any(tried)


class Modes:
    """modes and attributes of devices and shared files"""

    def see():
        return stats([*DEVICES, SHARED], "st_mode", "st_ctime_ns")

    def change():
        modes = done(lambda p: os.chmod(p, 0o666), *DEVICES, SHARED)
        return done(lambda p: os.setxattr(p, "user.x", b"x"), *DEVICES) or modes


class TimesOfReading:
    """times at which shared files and links were read"""

    STEP = 50

    def see():
        """How many of a hundred were read in the last minutes."""
        now = time.time()
        recent = [path for path in BESIDE if abs(now - os.lstat(path).st_atime) < 600]
        return 100 * len(recent) // len(BESIDE)

    def change():
        links = done(os.readlink, *BESIDE)
        return done(read, *BESIDE) or links


class Folder:
    """the writable folder: names, times, mode"""

    def see():
        state = os.stat(TMP)
        names = [name for name in os.listdir(TMP) if NAME in name]
        return [state.st_mode & 0o7777 == MODE, MARK in (state.st_mtime, state.st_atime), names]

    def change():
        made, changed = done(os.mkdir, f"{TMP}/{NAME}"), done(lambda p: os.chmod(p, MODE), TMP)
        return done(lambda p: os.utime(p, (MARK, MARK)), TMP) or made or changed


class NamesOfFiles:
    """names of files elsewhere, in /dev/shm and /tmp"""

    PLACES = ("/dev/shm", "/dev", "/tmp", "/var/tmp", "/", FOLDER)

    def see():
        return [os.path.exists(f"{place}/{NAME}") for place in NamesOfFiles.PLACES]

    def change():
        return done(os.mkdir, *(f"{place}/{NAME}" for place in NamesOfFiles.PLACES))


class Locks:
    """locks of a whole shared file or device"""

    def see():
        with open(CHOSEN, "rb") as f:
            return done(lambda file: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB), f)

    def change():
        return done(lambda path: fcntl.flock(opened(path), fcntl.LOCK_EX), CHOSEN)


class LocksOfRecords:
    """locks of parts of a shared file or device"""

    RECORD = "hhqqi4x"

    def see():
        asked = struct.pack(LocksOfRecords.RECORD, fcntl.F_WRLCK, os.SEEK_SET, TOKEN, 1, 0)
        found = fcntl.fcntl(opened(SHARED), fcntl.F_GETLK, asked)
        return struct.unpack(LocksOfRecords.RECORD, found)[0]

    def change():
        return done(lambda path: fcntl.lockf(opened(path), fcntl.LOCK_SH, 1, TOKEN), SHARED)


class Mapped:
    """how many processes have mapped a page of a shared file"""

    def see():
        with open(CHOSEN, "rb") as f:
            here = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
            HELD.append(here[0])
        with open("/proc/self/smaps") as f:
            of_it = itertools.dropwhile(lambda line: CHOSEN not in line, f)
            return next(line.split()[1] for line in of_it if line.startswith("Pss:"))

    def change():
        with open(CHOSEN, "rb") as f:
            HELD.append(mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ))
        return HELD[-1][0] >= 0


class Futexes:
    """processes that wait at an address of a shared file"""

    WAIT, WAKE = 0, 1

    def at():
        LIBC.mmap.restype, file = ctypes.c_void_p, opened(SHARED)
        return ctypes.c_void_p(
            LIBC.mmap(None, ctypes.c_long(4096), 1, 1, file, ctypes.c_long(0)) + 4 * PLACE
        )

    def see():
        return syscall("futex", Futexes.at(), Futexes.WAKE, 1, None, None, 0)

    def change():
        at = Futexes.at()
        value = ctypes.cast(at, ctypes.POINTER(ctypes.c_int32))[0]
        wait = lambda: syscall("futex", at, Futexes.WAIT, value, None, None, 0)  # noqa: E731
        threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.2)
        return True


class Sockets:
    """sockets with an abstract name"""

    def see():
        with suppress(OSError), socket.socket(socket.AF_UNIX) as door:
            return door.connect_ex(f"\0{NAME}") == 0

    def change():
        def listen(name):
            HELD.append(socket.socket(socket.AF_UNIX))
            HELD[-1].bind(name)
            HELD[-1].listen()

        return done(listen, f"\0{NAME}")


class HostName:
    """the name of the host"""

    def see():
        return os.uname().nodename

    def change():
        return done(socket.sethostname, NAME)


class ProcessIds:
    """process ids"""

    STEP = 80

    def see():
        pid = os.fork() or os._exit(0)
        os.waitpid(pid, 0)
        return pid

    def change():
        return [ProcessIds.see() for _ in range(100)] != []


class NumbersOfSessions:
    """numbers of sessions"""

    STEP = 250

    def see():
        with suppress(OSError), open("/proc/self/autogroup") as f:
            return int(f.read().split()[0].rpartition("-")[2])

    def change():
        for _ in range(300):
            pid = os.fork() or (os.setsid(), os._exit(0))
            os.waitpid(pid, 0)
        return True


class NumbersOfEvents:
    """how many event descriptors there are"""

    STEP = 50

    def see():
        HELD.append(os.eventfd(0))
        with suppress(OSError), open(f"/proc/self/fdinfo/{HELD[-1]}") as f:
            return int(f.read().partition("eventfd-id:")[2].split()[0])

    def change():
        return [NumbersOfEvents.see() for _ in range(100)] != []


class NumbersOfFiles:
    """numbers of new files"""

    STEP = 250

    def see():
        with tempfile.TemporaryFile() as f:
            return os.fstat(f.fileno()).st_ino

    def change():
        return [NumbersOfFiles.see() for _ in range(300)] != []


class NumbersOfPipes:
    """numbers of pipes, sockets and files of /proc"""

    STEP = 10_000  # a processor takes 1,024 or 4,096 numbers at a time

    def see(count=1100):
        for _ in range(count):
            ends = os.pipe()
            number = os.fstat(ends[0]).st_ino
            any(map(os.close, ends))
        return number

    def change():
        return NumbersOfPipes.see(20_000) > 0


class CountersOfTheMachine:
    """counters in /proc of the whole machine"""

    STEP = 20_000
    FILES = (
        "vmstat", "stat", "loadavg", "interrupts", "softirqs", "diskstats", "locks", "zoneinfo",
        "buddyinfo", "uptime", "schedstat", "pressure/cpu", "sys/fs/file-nr", "sys/fs/inode-nr",
        "sys/fs/dentry-state", "sys/kernel/random/entropy_avail", "sys/kernel/pty/nr",
        "key-users", "swaps", "cgroups", "sysvipc/shm", "driver/rtc", "tty/drivers", "timer_list",
    )  # fmt: skip

    def see():
        """The page faults of the machine; 0 if only other files can be read."""
        readable = []
        for name in CountersOfTheMachine.FILES:
            with suppress(OSError), open(f"/proc/{name}") as f:
                readable.append((name, f.read()))
        if readable[:1] and readable[0][0] == "vmstat":
            return int(readable[0][1].split("\npgfault ")[1].split()[0])
        return 0 if readable else None

    def change():
        pages = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)
        for _ in range(30_000):
            pages[0] = 1
            pages.madvise(mmap.MADV_DONTNEED)
        return True


class TimeOfTheBox:
    """processor time of the box's earlier tests"""

    STEP = 20

    def see():
        with suppress(OSError), open(f"/proc/{os.getppid()}/stat") as f:
            return sum(map(int, f.read().rpartition(")")[2].split()[13:15]))

    def change():
        until = time.process_time() + 0.5
        while time.process_time() < until:
            pass
        return True


class Neighbours:
    """other processes, and how many files they have open"""

    OPEN = 100 + TOKEN % 100

    def see():
        for pid in range(max(2, os.getpid() - 3000), os.getpid() + 3000):
            with suppress(OSError):
                if os.stat(f"/proc/{pid}/fd").st_size == Neighbours.OPEN and pid != os.getpid():
                    return True
        return False

    def change():
        now = len(os.listdir("/proc/self/fd")) - 1  # one was of the list
        return [opened("/dev/null") for _ in range(Neighbours.OPEN - now)] != []


class Terminals:
    """terminals"""

    def see():
        return [os.path.exists(f"/dev/pts/{n}") for n in range(20)]

    def change():
        paths = ("/dev/tty", "/dev/ptmx", "/dev/pts/0", "/dev/console", "/dev/kmsg")
        return done(lambda path: opened(path, os.O_RDWR | os.O_NOCTTY), *paths)


def f(name, what):
    """Look at a state, or change it."""
    return getattr(globals()[name], what)()
