"""The system calls that a test may not make."""

import errno
import fcntl
import re
import signal
import zlib
from pathlib import Path

import pytest

from grader.base.errors import GraderFault
from grader.sandbox import seccomp, visible_files
from tests.grader.in_the_sandbox import LEVELS, MACHINE, SYSCALLS, answer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]


# A checksum of each group, so that no line of the filter's tables is lost or changed unnoticed.
SUMS = {
    "x86_64":
        [2795183663, 4070110543, 1225296660, 1579439533, 3627280613, 2822043414, 3445904799],
    "aarch64":
        [3418661700, 659345458, 1680952176, 3948649266, 3946237705, 2013510009, 1702216753],
}  # fmt: skip
HEADERS = {
    "x86_64": (
        f"/usr/include/{visible_files.MULTIARCH}/asm/unistd_64.h",
        "/usr/include/asm/unistd_64.h",
    ),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_no_call_is_lost_or_changed(machine):
    this = seccomp.MACHINES[machine]
    groups = [repr(sorted(this.those(group).items())) for group in seccomp.GROUPS]
    assert SUMS[machine] == [zlib.crc32(group.encode()) for group in groups]
    assert seccomp.NEW_NAMESPACES == sum(1 << bit for bit in (17, *range(25, 31)))


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_numbers_are_the_kernels(machine):
    """As far as the headers that are installed here know the calls."""
    found = [path for path in map(Path, HEADERS[machine]) if path.exists()]
    if not found:
        pytest.skip(f"no headers of the kernel for {machine}")
    line = r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$"
    kernels = {name: int(n) for name, n in re.findall(line, found[0].read_text(), re.MULTILINE)}
    kernels.pop("syscalls", None)  # how many there are
    ours = dict(seccomp.MACHINES[machine].calls)
    ours["prlimit64"] = ours.pop("prlimit")
    known = {name: number for name, number in ours.items() if name in kernels}
    assert known == {name: kernels[name] for name in known}
    new = max(kernels.values())
    assert [name for name, number in ours.items() if name not in kernels and number <= new] == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_box_refuses_each_call_on_the_list(plain, level):
    """With arguments for which the kernel has other words: no descriptor, no address."""
    denied = {*MACHINE.those(seccomp.DENIED | seccomp.DENIED_WITHOUT_GPU)}
    if level == "landlock":
        # Whether a socket is denied depends on its kind.
        denied |= {*MACHINE.those(seccomp.DENIED_WITHOUT_NAMESPACES)} - {"socket"}
    wanted = dict.fromkeys(denied, errno.EPERM)
    wanted |= dict.fromkeys(seccomp.ATTRIBUTES, errno.ENOTSUP)
    wanted |= dict.fromkeys(seccomp.IGNORED, 0) | {"clone3": errno.ENOSYS}
    calls = [[MACHINE.calls[name], *[-1] * 6] for name in wanted]
    assert wanted == dict(zip(wanted, answer(plain(level), SYSCALLS, calls), strict=True))


ARGUMENTS = """
    import ctypes, fcntl, os, pathlib, shutil, socket, tempfile
    libc = ctypes.CDLL(None, use_errno=True)

    def error(act, *arguments):
        try:
            act(*arguments)
        except OSError as e:
            return e.errno
        return 0

    def f(SIGKILL, *commands):
        null, (one, other) = os.open(os.devnull, os.O_RDONLY), socket.socketpair()
        made = pathlib.Path(tempfile.mkdtemp(), "made")
        made.touch(), made.touch()
        shutil.copy2(made, made.with_name("copied"))
        return {
            "present": error(os.utime, os.devnull),
            "given": error(os.utime, os.devnull, (1, 1)),
            "no_wait": error(os.preadv, null, [bytearray(1)], 0, os.RWF_NOWAIT),
            "cookie": error(one.getsockopt, socket.SOL_SOCKET, 57, 8),
            "size": error(one.getsockopt, socket.SOL_SOCKET, socket.SO_SNDBUF),
            "fcntl": [error(fcntl.fcntl, null, command, 0) for command in commands],
            "duplicate": error(fcntl.fcntl, null, fcntl.F_DUPFD_CLOEXEC, 9),
            "locks": [error(fcntl.fcntl, null, lock, bytes([255]) * 32) for lock in (6, 7, 37, 38)],
            "kills": [error(os.kill, os.getpid(), SIGKILL), error(os.kill, 1, SIGKILL)],
            "files": sorted(os.listdir(made.parent)),
        }
"""


@pytest.mark.parametrize("level", LEVELS)
def test_some_arguments_are_refused(plain, level):
    """Times, flags and commands that leave something, and what a program needs beside them."""
    leave = [fcntl.F_SETLEASE, fcntl.F_NOTIFY, fcntl.F_SETSIG, 1035, 1036, 1037, 1038, 1040]
    got = answer(plain(level), ARGUMENTS, int(signal.SIGKILL), *map(int, leave))
    assert got == {
        "present": errno.EPERM, "given": 0, "no_wait": errno.EOPNOTSUPP, "cookie": errno.EPERM,
        "size": 0, "fcntl": [errno.EPERM] * len(leave), "duplicate": 0,
        "locks": [0] * 4, "kills": [errno.EPERM] * 2, "files": ["copied", "made"],
    }  # fmt: skip


def test_each_machine_with_a_table_has_filters_and_no_other():
    """They are whole instructions and end with a verdict."""
    for machine in seccomp.MACHINES:
        for program in (seccomp.program(machine), seccomp.of_tests(machine)):
            assert 0 == len(program) % 8
            assert program.endswith(b"\x06\0\0\0\x00\x00\xff\x7f")
    said = r"^no list of system calls for a vax processor: add one to grader\.sandbox\.seccomp$"
    with pytest.raises(GraderFault, match=said):
        seccomp.program("vax")
