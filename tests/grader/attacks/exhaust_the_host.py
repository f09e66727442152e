"""Use up time, memory, processes and files.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
"""

import ctypes
import faulthandler
import fcntl
import mmap
import os
import platform
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

TMP = tempfile.gettempdir()
LIBC = ctypes.CDLL(None)
X86 = platform.machine() == "x86_64"
MIB = 2**20


def busy_for(seconds):
    """Run without a pause, so that the zygote looks many times."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.getpid()


def fork_bomb(pause):
    """Fork without an end, and so do the children; wait for this number of seconds after each."""
    while True:
        with suppress(OSError):
            os.fork()
        time.sleep(pause)


# %% answer_of_500_mebibytes
"""Returns 500 MiB of bytes where a bool is expected, for the grader to write them down as text.

target: storage_views
tests: shares_storage
status: crashed
holds: no such value is sent, and of one that is sent only the beginning becomes text.
"""
def shares_storage(a, b):
    return bytes(500 * 2**20)


# %% children_that_nobody_waits_for
"""Has the kernel forget its children, whose processor time is then in no count of ended processes.

limits: cpu_seconds=1
status: timeout
holds: the processor time of every process that a test starts is counted.
"""
NO_WAIT = 0x00000002  # SA_NOCLDWAIT

def storage_bytes(x):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    flags = struct.pack("P128xi4xP", 0, NO_WAIT, 0)  # the same, by the C library
    LIBC.sigaction(signal.SIGCHLD, ctypes.create_string_buffer(flags), None)
    for _ in range(12):
        r, w = os.pipe()
        if os.fork() == 0:
            stop = time.process_time() + 0.3
            while time.process_time() < stop:
                pass
            os._exit(0)
        os.close(w)
        os.read(r, 1)
        os.close(r)
    return 0


# %% empty_files
"""Creates empty files until no inodes are left.

status: crashed
holds: the number of files is limited as well as their size.
"""
def storage_bytes(x):
    for number in range(10**9):
        open(f"{TMP}/attack-escaped-{number}", "w").close()


# %% descriptors
"""Opens pipes and sockets until none are left and fills them, in as many processes as it can start.

limits: wall_seconds=1
status: crashed, timeout, failed, memory
holds: the number of descriptors is limited, and all of them are closed when the test ends.
"""
def storage_bytes(x):
    for _ in range(4):
        os.fork()
    kept = []
    while True:
        kept.append(socket.socketpair())
        kept[-1][0].setblocking(False)
        kept[-1][0].send(bytes(100_000))


# %% endless_loop
"""Stops clocks and timers, ignores signals, and calls C code that runs for long and keeps the GIL.

limits: wall_seconds=0.5
status: timeout
holds: time is measured and the deadline enforced from outside, without the process's cooperation.
"""
time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
faulthandler.cancel_dump_traceback_later()
signal.setitimer(signal.ITIMER_REAL, 0)
for number in signal.valid_signals():
    with suppress(OSError):
        signal.signal(number, signal.SIG_IGN)

def storage_bytes(x):
    return sum(range(10**15))


# %% endless_output
"""Prints forever.

limits: wall_seconds=1
status: timeout
holds: the output does not delay the deadline.
"""
def storage_bytes(x):
    while True:
        print("passed " * 1000)


# %% files_without_a_name
"""Writes 200 MiB into open files that it has deleted, and earns its points only if that works.

reference: before
status: crashed, failed
earns: less
holds: all files together are limited to 64 MiB, with or without names.
"""
honest = storage_bytes

def storage_bytes(x):
    nameless = []
    for number in range(5):
        file = open(f"{TMP}/{number}", "wb")
        os.unlink(file.name)
        for _ in range(40):
            file.write(bytes(2**20))
        nameless.append(file)
    busy_for(1)  # so that the second level looks
    return honest(x)


# %% flood_of_output
"""Prints a hundred megabytes, and answers correctly.

reference: before
earns: full
holds: what is printed goes nowhere; it costs no memory, and no answer is lost.
"""
honest = storage_bytes

def storage_bytes(x):
    for _ in range(100):
        os.write(1, b"x" * 2**19)
        os.write(2, b"\x1b[2J" * 2**17)
    return honest(x)


# %% folder_that_cannot_be_listed
"""Writes more than the limit into folders that may be entered but not listed, or that are nested and exchanged for links.

status: crashed, failed
holds: files in such folders count as well, and the zygote follows no link out of the folder.
"""
def storage_bytes(x):
    os.mkdir(f"{TMP}/closed")
    os.symlink("/", f"{TMP}/closed/everything")
    os.chmod(f"{TMP}/closed", 0o300)
    try:
        for n in range(60):
            with open(f"{TMP}/closed/{n}", "wb", buffering=0) as file:
                file.write(bytes(2 * MIB))
    except OSError:
        raise LookupError("the file system itself has the limit") from None
    busy_for(20)
    raise LookupError("BREACH")

tensor_bytes = unique_bytes = storage_bytes


# %% folders_that_resist
"""Leaves unreadable folders and a tree deeper than the longest path, and answers correctly.

reference: before
earns: full
holds: the next test starts from an empty folder.
"""
honest = storage_bytes

def is_deep():
    try:
        return os.path.basename(os.getcwd()) == "deeper" * 30
    except OSError:  # the path is too long
        return True

def storage_bytes(x):
    if is_deep():
        return honest(x)
    assert not os.path.exists(f"{TMP}/attack-escaped")
    os.makedirs(f"{TMP}/attack-escaped/closed")
    open(f"{TMP}/attack-escaped/closed/file", "w").close()
    os.chmod(f"{TMP}/attack-escaped/closed", 0)
    os.makedirs(f"{TMP}/deep")
    os.chdir(f"{TMP}/deep")
    for _ in range(25):
        os.mkdir("deeper" * 30)
        os.chdir("deeper" * 30)
    return honest(x)


# %% fork_bomb
"""Forks, and its children fork too.

limits: wall_seconds=0.5 processes=16
status: crashed, timeout, failed
holds: the number of processes is limited, and all of them end with the test.
"""
def storage_bytes(x):
    fork_bomb(0.02)  # it grows as far, and no other test has to wait


# %% hidden_folders_that_are_writable
"""Tries to write into every folder that it can find, above all into those that hide packages or lie in memory.

status: failed
holds: one folder is writable, whoever runs the grader.
"""
LIB = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}"
PREFIXES = {sys.base_prefix, sys.prefix, "/usr", "/usr/local", "/python"}

def folders():
    """The folders of the file system, up to a depth that shows every mount."""
    for name in ("site-packages", "dist-packages", ""):
        yield from (f"{prefix}/{LIB}/{name}" for prefix in PREFIXES)
    with suppress(OSError):
        with open("/proc/self/mountinfo", "rb") as f:
            yield from (os.fsdecode(line.split()[4]) for line in f)
    for top, below, _ in os.walk("/"):
        yield top
        if top.count("/") > 5 or top.startswith("/proc"):
            below.clear()

def storage_bytes(x):
    wrote = set()
    for folder in {*folders()}:
        if os.path.realpath(folder).startswith(os.path.realpath(TMP)):
            continue
        with suppress(OSError):
            open(f"{folder}/attack-escaped", "w").close()
            wrote.add(folder)
    for name in ("/dev/ptmx", "/dev/pts/ptmx"):
        with suppress(OSError):
            os.open(name, os.O_RDWR | os.O_NOCTTY)
            wrote.add(name)
    raise LookupError(f"BREACH: {sorted(wrote)}" if wrote else "nothing")

tensor_bytes = unique_bytes = storage_bytes


# %% locks_that_nobody_counts
"""Locks parts of a file; each lock holds memory of the kernel, and processes elsewhere see it.

status: failed
holds: no lock is held, and sqlite3 works anyway.
"""
RECORD = "hhqqi4x"
OF_THE_OPEN_FILE = 37  # F_OFD_SETLK

def locked(file):
    """Whether another process finds the first byte locked."""
    if (pid := os.fork()) == 0:
        asked = struct.pack(RECORD, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        found = struct.unpack(RECORD, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        os._exit(found[0] != fcntl.F_UNLCK)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

got = []
with tempfile.NamedTemporaryFile() as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1)
    got += ["process"] * locked(file.fileno())
with tempfile.NamedTemporaryFile() as file:
    lock = struct.pack(RECORD, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    fcntl.fcntl(file, OF_THE_OPEN_FILE, lock)
    with open(file.name, "r+b") as other:
        got += ["open file"] * locked(other.fileno())
with sqlite3.connect(f"{TMP}/made") as made:
    made.execute("create table t (x)")
    made.execute("insert into t values (7)")
if made.execute("select x from t").fetchall() != [(7,)]:
    got.append("not even a database")
raise LookupError(f"BREACH: {got}" if got else "nothing")


# %% memory_in_many_processes
"""Spreads its memory over several processes, each of which stays below the limit.

limits: memory_bytes=134217728
status: memory
holds: the memory limit applies to all processes together.
"""
def storage_bytes(x):
    for _ in range(4):
        if os.fork() == 0:
            keep = bytearray(50 * 2**20)
            time.sleep(60)
    time.sleep(60)


# %% memory_of_other_programs
"""Runs programs, each of which holds no more than the zygote did when this process was forked.

limits: memory_bytes=268435456
status: memory
holds: a process that shares no memory with the zygote gets none for free.
"""
HOLD = (
    "import time; x = bytearray(120 << 20); x[::4096] = b'x' * len(x[::4096]); "
    "print(1, flush=True); time.sleep(60)"
)

def storage_bytes(x):
    program = [sys.executable, "-S", "-I", "-c", HOLD]
    started = [subprocess.Popen(program, stdout=subprocess.PIPE) for _ in range(5)]
    for process in started:
        process.stdout.readline()
    busy_for(1)
    return -1


# %% memory_that_nobody_counts
"""Requests memory that outlives a process or is in no resident set: in folders, shared pages without a file, large buffers of sockets.

status: failed
holds: no such memory can be allocated.
"""
got = []
for folder in ("/dev/shm", "/dev/mqueue", "/run", "/var/tmp", "/dev", "/"):
    with suppress(OSError):
        open(f"{folder}/attack-escaped", "w").close()
        # /dev/shm may be the writable folder, whose files count and are removed.
        if folder != "/dev/shm" or "attack-escaped" not in os.listdir(TMP):
            got.append(folder)

def shared_pages(flags, file=-1):
    LIBC.mmap.restype = ctypes.c_void_p
    at = LIBC.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    return at not in (None, 2**64 - 1)

for flags in (mmap.MAP_SHARED, 0x3):  # the second is MAP_SHARED_VALIDATE
    if shared_pages(flags | mmap.MAP_ANONYMOUS):
        got.append(f"mmap {flags}")
    for device in ("zero", "full", "null"):
        with suppress(OSError):
            if shared_pages(flags, os.open(f"/dev/{device}", os.O_RDWR)):
                got.append(device)
if not shared_pages(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
    got.append("not even private pages")
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    with suppress(OSError):
        socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, option, 2**30)
        got.append(f"a large buffer of a socket: {option}")
with open("/dev/zero", "rb") as zeros:
    if zeros.read(3) != bytes(3):
        got.append("no zeros")
raise LookupError(f"BREACH: {got}" if got else "nothing")


# %% memory_without_a_first_thread
"""Ends the first thread of each process, after which the kernel reports no memory for that process, and allocates in the second.

limits: memory_bytes=268435456
status: memory
holds: the memory of the remaining threads is counted.
"""
def grow():
    time.sleep(0.3)
    keep = bytearray(100 * 2**20)
    time.sleep(60)

def storage_bytes(x):
    for _ in range(4):
        if os.fork() == 0:
            threading.Thread(target=grow).start()
            LIBC.syscall(60 if X86 else 93, 0)
    time.sleep(60)


# %% fork_bomb_at_full_speed
"""Forks without a pause, up to the limit of the course.

limits: wall_seconds=1
status: crashed, timeout, failed
holds: the number of processes is limited, and all of them end with the test.
"""
def storage_bytes(x):
    fork_bomb(0)
