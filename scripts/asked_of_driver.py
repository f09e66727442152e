"""Run a program, and list what it does that the landlock level would deny to CUDA.

    python -m scripts.asked_of_driver python -c "import torch; print(torch.ones(1, device='cuda'))"

It prints each ioctl request that grader/sandbox/ioctls.py does not list, with the file that was
asked, and each existing file that was opened and that the level does not show. It exits with 1 if
there are any. The program itself runs as it would without this script. Nothing needs to be
installed: the kernel tells the calls to this process (seccomp_unotify(2)), which lets them go on.
"""

import ctypes
import os
import platform
import select
import socket
import struct
import sys
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path

from grader.sandbox import gpus, ioctls, seccomp, visible
from grader.sandbox.levels import landlock
from grader.worker import kernel

# See linux/seccomp.h.
SECCOMP = {"x86_64": 317, "aarch64": 277}
OPENAT = {"x86_64": 257, "aarch64": 56}
SET_FILTER, WITH_LISTENER, TELL = 1, 1 << 3, 0x7FC00000
RECEIVE, ANSWER, GO_ON = 0xC0502100, 0xC0182101, 1
CALL = struct.Struct("QIIiIQ6Q")  # id, pid, flags, number, architecture, address, arguments
LONGEST_PATH = 4096
DEVICES = ("null", "zero", "full", "random", "urandom", "nvidiactl", "nvidia-uvm", "nvidia[0-9]*")
# A box of the level has these under other names.
HAS_ITS_OWN = (sys.prefix, sys.base_prefix, "/etc/ld.so.cache", "/proc/self", "/tmp", os.getcwd())


def main() -> int:
    """Run the program, print what it did, and return the exit code."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _run(sys.argv[1:], theirs)
    theirs.close()
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    asked, opened = _listen(listener, child)
    others = {path for path in opened if _is_there(path) and not _is_shown(path)}
    for line in sorted([*asked, *(f"opened {path}" for path in others)]):
        print(line)
    print(f"{len(asked)} requests and {len(others)} files that the landlock level would deny")
    return 1 if asked or others else 0


def _run(command: list[str], answer: socket.socket) -> None:
    """Become the program, of which the parent is told each request and each opened file."""
    try:
        kernel.no_new_privileges()
        listener = _filter()
        socket.send_fds(answer, [b"x"], [listener])
        os.close(listener)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def _filter() -> int:
    """Have the kernel tell this process's calls; return the descriptor to read them from."""
    this = seccomp.MACHINES[platform.machine()]
    tell = seccomp._return(TELL)
    program = seccomp._load(seccomp.NUMBER) + b"".join(
        seccomp._when(seccomp.EQUAL, number, tell)
        for number in (this.ioctl, OPENAT[platform.machine()])
    )
    program += seccomp._return(seccomp.ALLOW)
    held = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(held))
    call = SECCOMP[platform.machine()]
    return kernel._checked(kernel.LIBC.syscall(call, SET_FILTER, WITH_LISTENER, header))


def _listen(listener: int, child: int) -> tuple[set[str], set[str]]:
    """The requests that are not listed, and all opened paths, until the program ends."""
    asked, opened = set[str](), set[str]()
    pidfd = os.pidfd_open(child)
    while pidfd not in select.select([listener, pidfd], [], [])[0]:
        told = bytearray(CALL.size)
        with suppress(OSError):  # the process that called has ended
            ioctl(listener, RECEIVE, told)
            number, pid, _, call, _, _, *arguments = CALL.unpack(told)
            if call == OPENAT[platform.machine()]:
                opened.add(_path(pid, arguments[1]))
            elif not ioctls.is_listed(request := arguments[1] & 0xFFFFFFFF):
                asked.add(f"asked {_link(f'/proc/{pid}/fd/{arguments[0]}')} for {request:#010x}")
            ioctl(listener, ANSWER, struct.pack("QqiI", number, 0, 0, GO_ON))
    os.waitpid(child, 0)
    return asked, opened


def _path(pid: int, address: int) -> str:
    """The path at an address of a process; a missing file if it cannot be read."""
    with suppress(OSError), open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        path = os.fsdecode(memory.read(LONGEST_PATH).split(b"\0")[0])
        return os.path.realpath(path.replace(f"/proc/{pid}", "/proc/self"))
    return ""


def _link(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return "a closed file"


def _is_there(path: str) -> bool:
    return Path(path).exists() and not Path(path).is_dir()


def _is_shown(path: str) -> bool:
    """Whether the landlock level shows a file, there or under a name of its own."""
    if path.startswith("/proc/") and path.split("/")[2].isdigit():
        return True  # of a process of the program
    if path.startswith("/dev/"):
        return any(Path(path).match(f"/dev/{name}") for name in DEVICES)
    folders = [*map(str, visible.library_folders()), *landlock.OF_THE_MACHINE, *visible.HUGE_PAGES]
    folders += [*gpus.READ_BY_CUDA, *landlock.READ_BY_CUDA, *HAS_ITS_OWN]
    is_numa = path.startswith("/sys/") and path.endswith("/numa_node")
    return is_numa or any(Path(path).is_relative_to(os.path.realpath(f)) for f in folders)


if __name__ == "__main__":
    sys.exit(main())
