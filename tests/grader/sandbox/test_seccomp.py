"""The system calls that a test may not make."""

import errno
import fcntl
import platform
import re
import signal
from pathlib import Path

import pytest

from grader.base.errors import GraderFault
from grader.sandbox import seccomp, visible
from tests.grader.in_the_sandbox import LEVELS, MACHINE, SYSCALLS, answer, plain_box

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]
THIS = platform.machine()


# What a submission may not call, by purpose: a list of its own, so that no line of the filter's is
# lost unnoticed. "-" precedes what aarch64 does not have.
DENIED = {
    "namespaces and mounts": "unshare setns mount umount2 pivot_root chroot open_tree move_mount "
    "fsopen fsconfig fsmount fspick mount_setattr statmount listmount listns",
    "keys": "add_key request_key keyctl",
    "ways into the kernel": "io_uring_setup io_uring_enter io_uring_register bpf userfaultfd "
    "perf_event_open init_module finit_module delete_module kexec_load kexec_file_load syslog "
    "personality -modify_ldt -iopl -ioperm reboot acct swapon swapoff",
    "other processes": "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd setpriority "
    "sched_setparam sched_setscheduler sched_setaffinity sched_setattr ioprio_set",
    "files by other means": "name_to_handle_at open_by_handle_at fanotify_init quotactl "
    "quotactl_fd file_getattr file_setattr",
    "owners and times": "-chown fchown -lchown fchownat -utime -utimes -futimesat",
    "memory that nobody counts": "memfd_create memfd_secret shmget shmat semget msgget mq_open "
    "sendfile splice tee vmsplice io_setup",
}
WITHOUT_GPU = {
    "pages and places of memory": "mincore cachestat mbind get_mempolicy set_mempolicy "
    "set_mempolicy_home_node migrate_pages move_pages",
    "watches": "-inotify_init inotify_init1",
}
WITHOUT_NAMESPACES = {
    "sockets": "socket connect bind listen accept accept4",
    "watches": "-inotify_init inotify_init1",
    "names of the machine": "sethostname setdomainname mq_unlink shmctl semctl msgctl",
}
ATTRIBUTES = {
    f"{link}{what}xattr" for link in ("", "l", "f") for what in ("set", "get", "list", "remove")
} | {f"{what}xattrat" for what in ("set", "get", "list", "remove")}
KILLS = "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"
IGNORED = "readahead fadvise64"
HEADERS = {
    "x86_64": (f"/usr/include/{visible.MULTIARCH}/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


def names(groups, machine):
    """The names of these groups that a machine has."""
    words = " ".join(groups.values() if isinstance(groups, dict) else [groups]).split()
    return {word.lstrip("-") for word in words if machine == "x86_64" or word[0] != "-"}


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_each_call_on_the_list_is_in_the_filters_tables(machine):
    """And no other."""
    this = seccomp.MACHINES[machine]
    assert names(DENIED, machine) == {*this.those(seccomp.DENIED)}
    assert names(WITHOUT_GPU, machine) == {*this.those(seccomp.DENIED_WITHOUT_GPU)}
    assert names(WITHOUT_NAMESPACES, machine) == {*this.those(seccomp.DENIED_WITHOUT_NAMESPACES)}
    assert (ATTRIBUTES, names(KILLS, machine)) == ({*seccomp.ATTRIBUTES}, {*seccomp.KILLS})
    assert names(IGNORED, machine) == {*seccomp.IGNORED}
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
def test_a_box_refuses_each_call_on_the_list(level):
    """With arguments for which the kernel has other words: no descriptor, no address."""
    denied = names(DENIED | WITHOUT_GPU, THIS)
    if level == "landlock":
        # Whether a socket is denied depends on its kind.
        denied |= names(WITHOUT_NAMESPACES, THIS) - {"socket"}
    wanted = dict.fromkeys(denied, errno.EPERM) | dict.fromkeys(ATTRIBUTES, errno.ENOTSUP)
    wanted |= dict.fromkeys(names(IGNORED, THIS), 0) | {"clone3": errno.ENOSYS}
    calls = [[MACHINE.calls[name], *[-1] * 6] for name in wanted]
    with plain_box(level) as box:
        assert wanted == dict(zip(wanted, answer(box, SYSCALLS, calls), strict=True))


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
            "kills": [error(os.kill, os.getpid(), SIGKILL), error(os.kill, 1, SIGKILL)],
            "files": sorted(os.listdir(made.parent)),
        }
"""


@pytest.mark.parametrize("level", LEVELS)
def test_some_arguments_are_refused(level):
    """Times, flags and commands that leave something, and what a program needs beside them."""
    leave = [fcntl.F_SETLEASE, fcntl.F_NOTIFY, fcntl.F_SETSIG, 1035, 1036, 1037, 1038, 1040]
    with plain_box(level) as box:
        got = answer(box, ARGUMENTS, int(signal.SIGKILL), *map(int, leave))
    assert got == {
        "present": errno.EPERM, "given": 0, "no_wait": errno.EOPNOTSUPP, "cookie": errno.EPERM,
        "size": 0, "fcntl": [errno.EPERM] * len(leave), "duplicate": 0, "kills": [errno.EPERM] * 2,
        "files": ["copied", "made"],
    }  # fmt: skip


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_filter_is_whole_instructions(machine):
    """The filter ends with a verdict, for each architecture that has a table."""
    for program in (seccomp.program(machine), seccomp.of_tests(machine)):
        assert 0 == len(program) % 8
        assert program.endswith(b"\x06\0\0\0\x00\x00\xff\x7f")


def test_another_machine_is_refused():
    """A filter with another architecture's numbers would be worse than none."""
    with pytest.raises(
        GraderFault,
        match=r"^no list of system calls for a vax processor: add one to grader\.sandbox\.seccomp$",
    ):
        seccomp.program("vax")
