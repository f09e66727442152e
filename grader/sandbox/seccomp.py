"""A seccomp filter that denies the system calls that a submission may not make.

It is a deny-list, because torch and its libraries use several hundred calls. It denies calls that
reach beyond the sandbox's namespaces (kernel keyrings, nested namespaces, mounts, other processes'
memory), calls that have been used to attack the kernel (io_uring, bpf, userfaultfd, perf events),
calls that tell or leave something about files that Landlock does not protect (owners and attributes
of files, mounts of the machine), and calls that change the limits or priorities of another process:
limits set on the zygote would apply to every later submission. Nor may a submission learn what is
in the machine's memory of a file that all boxes share, or watch who opens it.

It also denies every way to hold memory that is in no process's resident set, because that set is
what the zygote counts: memory files (memfd), System V and POSIX queues, shared memory without a
file, pages that are moved into a pipe (vmsplice, splice, tee, sendfile), and asynchronous I/O. The
buffers of sockets are in no resident set either, so they cannot be enlarged. With a GPU, memory
files and shared memory without a file are allowed, because CUDA needs the first and nobody has
checked that it does not need the second. Without namespaces, more calls are denied: those that
reach a network, other processes, or named objects that other processes have left behind. With a GPU
and without namespaces, ioctl is limited to the requests of ioctls.py, and a process may bind
sockets that nobody can connect to.

A second filter (`of_tests`) holds for the processes of a test only, not for their zygote, which
still sets the times of the writable folder. A test cannot set times: anybody may set those of a
device to the present, and they outlive the box. The present is refused; given times are ignored, as
on a file system that keeps none, so that shutil.copy2 works. And what fcntl can note at a file
(leases, watches of a folder, hints) is denied.

Locks of parts of a file are ignored, too. Each holds memory of the kernel that nobody counts, and
other boxes see it; but sqlite3 refuses to work where locks fail.

This filter also denies every way to have the kernel send SIGKILL. Therefore a process that dies of
SIGKILL was killed by its zygote, which says so, or by somebody outside: by the kernel, because
memory ran out, or by a person. Nothing that a submission does looks like that, so this needs no
evidence from the rest of the machine. The ways are: kill and its relatives; a signal that a timer,
a file or the end of a child sends; and a limit of CPU time. Code that must end a process of its own
uses SIGTERM.

The filter is classic BPF, 8 bytes per instruction; see seccomp(2). A denied call fails with EPERM.
clone3 fails with ENOSYS, because its flags are in memory that a filter cannot read; the C library
then falls back to clone, whose flags the filter can read.
"""

import errno
import platform
import socket
import struct
from typing import NamedTuple

from grader.base.errors import SandboxUnavailable
from grader.sandbox import ioctls


class Machine(NamedTuple):
    """A processor architecture: its audit number, and the numbers of its system calls."""

    audit: int
    clone: int
    clone3: int
    socket: int
    socketpair: int
    prlimit: int
    mmap: int
    ioctl: int
    fcntl: int
    fallocate: int
    setsockopt: int
    setrlimit: int
    timer_create: int
    preadv2: int
    getsockopt: int
    utimensat: int
    setsid: int
    kills: dict[str, int]
    ignored: dict[str, int]
    attributes: dict[str, int]
    denied: dict[str, int]
    denied_without_gpu: dict[str, int]
    denied_without_namespaces: dict[str, int]


COMMON = {  # the same numbers on every machine
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447,
    "statmount": 457, "listmount": 458, "file_getattr": 468, "file_setattr": 469, "listns": 470,
}  # fmt: skip
COMMON_WITHOUT_GPU = {"set_mempolicy_home_node": 450, "cachestat": 451}
# Rules of Landlock keep files alive that no process shows to hold.
LANDLOCK = (444, 445, 446)
COMMON_KILLS = {"pidfd_send_signal": 424}
COMMON_ATTRIBUTES = {
    "setxattrat": 463, "getxattrat": 464, "listxattrat": 465, "removexattrat": 466,
}  # fmt: skip

MACHINES = {
    "x86_64": Machine(0xC000003E, clone=56, clone3=435, socket=41, socketpair=53, prlimit=302,
                      mmap=9, ioctl=16, fcntl=72, fallocate=285, setsockopt=54, setrlimit=160,
                      timer_create=222, preadv2=327, getsockopt=55, utimensat=280, setsid=112,
                      ignored={
        "readahead": 187, "fadvise64": 221,
    }, kills=COMMON_KILLS | {
        "kill": 62, "rt_sigqueueinfo": 129, "tkill": 200, "tgkill": 234, "rt_tgsigqueueinfo": 297,
    }, attributes=COMMON_ATTRIBUTES | {
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "getxattr": 191, "lgetxattr": 192,
        "fgetxattr": 193, "listxattr": 194, "llistxattr": 195, "flistxattr": 196,
        "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
    }, denied=COMMON | {
        "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "ptrace": 101, "syslog": 103,
        "personality": 135, "modify_ldt": 154, "pivot_root": 155, "chroot": 161, "acct": 163,
        "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172,
        "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "mq_open": 240,
        "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
        "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
        "kcmp": 312, "finit_module": 313, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321,
        "userfaultfd": 323, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144,
        "sched_setaffinity": 203, "ioprio_set": 251, "sched_setattr": 314, "sendfile": 40,
        "io_setup": 206, "splice": 275, "tee": 276, "vmsplice": 278, "chown": 92, "fchown": 93,
        "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261,
    }, denied_without_gpu=COMMON_WITHOUT_GPU | {
        "mincore": 27, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239,
        "migrate_pages": 256, "move_pages": 279, "inotify_init": 253, "inotify_init1": 294,
    }, denied_without_namespaces={
        "socket": 41, "connect": 42, "bind": 49, "listen": 50, "accept": 43, "accept4": 288,
        "inotify_init": 253, "inotify_init1": 294, "sethostname": 170, "setdomainname": 171,
        "mq_unlink": 241, "shmctl": 31, "semctl": 66, "msgctl": 71,
    }),
    "aarch64": Machine(0xC00000B7, clone=220, clone3=435, socket=198, socketpair=199, prlimit=261,
                       mmap=222, ioctl=29, fcntl=25, fallocate=47, setsockopt=208, setrlimit=164,
                       timer_create=107, preadv2=286, getsockopt=209, utimensat=88, setsid=157,
                       ignored={
        "readahead": 213, "fadvise64": 223,
    }, kills=COMMON_KILLS | {
        "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
    }, attributes=COMMON_ATTRIBUTES | {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "getxattr": 8, "lgetxattr": 9,
        "fgetxattr": 10, "listxattr": 11, "llistxattr": 12, "flistxattr": 13, "removexattr": 14,
        "lremovexattr": 15, "fremovexattr": 16,
    }, denied=COMMON | {
        "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "quotactl": 60, "acct": 89,
        "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105,
        "delete_module": 106, "syslog": 116, "ptrace": 117, "reboot": 142, "mq_open": 180,
        "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196, "add_key": 217,
        "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225, "perf_event_open": 241,
        "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
        "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
        "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
        "ioprio_set": 30, "sched_setparam": 118, "sched_setscheduler": 119,
        "sched_setaffinity": 122, "setpriority": 140, "sched_setattr": 274, "io_setup": 0,
        "sendfile": 71, "vmsplice": 75, "splice": 76, "tee": 77, "fchownat": 54, "fchown": 55,
    }, denied_without_gpu=COMMON_WITHOUT_GPU | {
        "mincore": 232, "mbind": 235, "get_mempolicy": 236, "set_mempolicy": 237,
        "migrate_pages": 238, "move_pages": 239, "inotify_init1": 26,
    }, denied_without_namespaces={
        "socket": 198, "connect": 203, "bind": 200, "listen": 201, "accept": 202, "accept4": 242,
        "inotify_init1": 26, "sethostname": 161, "setdomainname": 162,
        "mq_unlink": 181, "shmctl": 195, "semctl": 191, "msgctl": 187,
    }),
}  # fmt: skip

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME shares its bit with the
# exit signal.
NEW_NAMESPACES = (
    0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)
AF_UNIX = 1
# Sockets of these types, if made as a pair, can send only to each other. Datagram sockets could
# send to any address.
SOCK_STREAM, SOCK_SEQPACKET, TYPE_OF_SOCKET = 1, 5, 0xF
OWN_PROCESS = 0
X32_BIT = 0x40000000
# CUDA's driver has needed this call since version 570: if the call fails, so does the driver, with
# error 304.
NEEDED_BY_CUDA = {"memfd_create"}
# CUDA's driver binds a socket with an abstract name, over which processes could share GPU memory,
# and does not start if it cannot. `connect` and `accept` stay denied, so the socket reaches nobody.
# (snapd's interface cuda-support lists the socket.)
BOUND_BY_CUDA = {"socket", "bind", "listen"}

# What mmap is told: shared, or shared with checks; without a file.
SHARING, MAP_SHARED, MAP_SHARED_VALIDATE, MAP_ANONYMOUS = 0x3, 1, 3, 0x20
# They set attributes of an open file (FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR), or
# reserve space for it, as fallocate does (FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE).
SETTING_ATTRIBUTES = (0x40086602, 0x40046602, 0x401C5820, 0x40305828, 0x4030582A, 0x40305839)
SIGKILL, F_SETSIG, RLIMIT_CPU = 9, 10, 0
# fcntl's locks of parts of a file: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW.
LOCKING = (6, 7, 37, 38)
# What fcntl leaves at a file: F_SETLEASE and F_NOTIFY; and from F_GET_RW_HINT on, hints and
# delegations.
F_SETLEASE, F_NOTIFY, F_GET_RW_HINT = 1024, 1026, 1035
# Flags of preadv2 that tell whether a page is in memory, or remove it: RWF_NOWAIT, RWF_DONTCACHE.
OF_PAGES_IN_MEMORY = 0x08 | 0x80
# The numbers of a socket and of its namespace, which the kernel counts up for the whole machine.
SOL_SOCKET, SO_COOKIE, SO_NETNS_COOKIE = 1, 57, 71
EXIT_SIGNAL = 0xFF  # the bits of clone's flags

LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
FIRST_ARGUMENT, SECOND_ARGUMENT, THIRD_ARGUMENT, FOURTH_ARGUMENT = 16, 24, 32, 40
SIXTH_ARGUMENT = 56
HIGH_HALF = 4  # an argument has 64 bits, and the filter reads 32
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
IGNORE = ERRNO | 0  # the call succeeds and does nothing


def program(machine: str | None = None, *, cuda: bool = False, namespaces: bool = True) -> bytes:
    """The filter for a machine (by default this one), in the form that `bwrap --seccomp` reads.

    Args:
        machine: The name of its architecture, such as "x86_64".
        cuda: Whether CUDA must work.
        namespaces: Whether the filtered processes have network and IPC namespaces of their own; if
            not, all sockets except socket pairs are denied. With CUDA, local sockets can be made
            but not connected, and `ioctls` lists the requests of ioctl.

    Raises:
        SandboxUnavailable: There is no table of system calls for that machine.
    """
    this = _machine(machine)
    deny = _return(ERRNO | errno.EPERM)
    denied = [
        number for name, number in this.denied.items() if not (cuda and name in NEEDED_BY_CUDA)
    ]
    if not cuda:
        denied += this.denied_without_gpu.values()
    if not namespaces:
        denied += [
            number
            for name, number in this.denied_without_namespaces.items()
            if not (cuda and name in BOUND_BY_CUDA)
        ]
    return b"".join(
        [
            *_of_this_architecture(this),
            *(_when(EQUAL, number, deny) for number in sorted({*denied})),
            # As on a file system without attributes, so that shutil.copy2 works.
            *(
                _when(EQUAL, number, _return(ERRNO | errno.ENOTSUP))
                for number in sorted(this.attributes.values())
            ),
            *(_when(EQUAL, number, _return(IGNORE)) for number in this.ignored.values()),
            _when(EQUAL, this.clone3, _return(ERRNO | errno.ENOSYS)),
            # Space that is reserved at once would fill a shared disk between two looks of the
            # zygote. The C library then writes instead.
            b"" if namespaces else _when(EQUAL, this.fallocate, _return(ERRNO | errno.ENOTSUP)),
            b"" if namespaces else b"".join(
                _when(EQUAL, number, _only_streams(deny))
                for number in (this.socketpair, this.socket)
            ),
            b"" if namespaces or not cuda else _when(EQUAL, this.ioctl, _listed_requests(deny)),
            *_denied_arguments(this, deny),
            b"" if cuda else _when(EQUAL, this.mmap, _no_shared_memory_without_a_file(deny)),
            _return(ALLOW),
        ]
    )  # fmt: skip


def _only_streams(deny: bytes) -> bytes:
    """Allow local sockets of the types that cannot send to any address."""
    return (
        _load(FIRST_ARGUMENT)
        + _unless(EQUAL, AF_UNIX, deny)
        + _load(SECOND_ARGUMENT)
        + _instruction(AND, 0, 0, TYPE_OF_SOCKET)
        + _when(EQUAL, SOCK_STREAM, _return(ALLOW))
        + _unless(EQUAL, SOCK_SEQPACKET, deny)
        + _return(ALLOW)
    )


def _listed_requests(deny: bytes) -> bytes:
    """Allow the requests of `ioctls`; the kernel, too, reads 32 bits of a request."""
    allow = _return(ALLOW)
    return (
        _load(SECOND_ARGUMENT)
        + b"".join(_when(EQUAL, request, allow) for request in ioctls.exact())
        + _instruction(AND, 0, 0, ioctls.TYPE_AND_NUMBER)
        + b"".join(_when(EQUAL, request, allow) for request in ioctls.of_any_size())
        + deny
    )


def _denied_arguments(this: Machine, deny: bytes) -> list[bytes]:
    """Rules for calls that are allowed with some arguments only."""
    return [
        _when(
            EQUAL, this.clone,
            _load(FIRST_ARGUMENT) + _when(ANY_BIT, NEW_NAMESPACES, deny) + _return(ALLOW),
        ),
        _when(
            EQUAL, this.socket,
            _load(FIRST_ARGUMENT) + _unless(EQUAL, AF_UNIX, deny) + _return(ALLOW),
        ),
        _when(
            EQUAL, this.prlimit,
            _load(FIRST_ARGUMENT) + _unless(EQUAL, OWN_PROCESS, deny) + _return(ALLOW),
        ),
        _when(
            EQUAL, this.setsockopt,
            _load(THIRD_ARGUMENT)
            + _when(EQUAL, socket.SO_SNDBUF, deny)
            + _when(EQUAL, socket.SO_RCVBUF, deny)
            + _return(ALLOW),
        ),
        _when(
            EQUAL, this.ioctl,
            _load(SECOND_ARGUMENT)
            + b"".join(_when(EQUAL, number, deny) for number in SETTING_ATTRIBUTES)
            + _return(ALLOW),
        ),
        _when(
            EQUAL, this.preadv2,
            _load(SIXTH_ARGUMENT)
            + _when(ANY_BIT, OF_PAGES_IN_MEMORY, _return(ERRNO | errno.EOPNOTSUPP))
            + _return(ALLOW),
        ),
        _when(
            EQUAL, this.getsockopt,
            _load(SECOND_ARGUMENT) + _unless(EQUAL, SOL_SOCKET, _return(ALLOW))
            + _load(THIRD_ARGUMENT) + _when(EQUAL, SO_COOKIE, deny)
            + _when(EQUAL, SO_NETNS_COOKIE, deny) + _return(ALLOW),
        ),
    ]  # fmt: skip


def _no_shared_memory_without_a_file(deny: bytes) -> bytes:
    shared = _load(FOURTH_ARGUMENT) + _instruction(AND, 0, 0, SHARING)
    return (
        _load(FOURTH_ARGUMENT)
        + _when(
            ANY_BIT,
            MAP_ANONYMOUS,
            shared + _when(EQUAL, MAP_SHARED, deny) + _when(EQUAL, MAP_SHARED_VALIDATE, deny),
        )
        + _return(ALLOW)
    )


def of_tests(machine: str | None = None, *, cuda: bool = False) -> bytes:
    """The second filter, for the processes of a test; they must set their own limits before it.

    Args:
        machine: The name of its architecture, such as "x86_64".
        cuda: Whether CUDA must work.

    Raises:
        SandboxUnavailable: There is no table of system calls for that machine.
    """
    this = _machine(machine)
    deny = _return(ERRNO | errno.EPERM)
    signal_is = dict.fromkeys(this.kills, SECOND_ARGUMENT)
    signal_is |= {"tgkill": THIRD_ARGUMENT, "rt_tgsigqueueinfo": THIRD_ARGUMENT}
    return b"".join(
        [
            *_of_this_architecture(this),
            *(
                _when(
                    EQUAL, number,
                    _load(signal_is[name]) + _when(EQUAL, SIGKILL, deny) + _return(ALLOW),
                )
                for name, number in this.kills.items()
            ),
            *(_when(EQUAL, number, deny) for number in LANDLOCK),
            # Which signal a timer sends is in memory that a filter cannot read.
            b"" if cuda else _when(EQUAL, this.timer_create, deny),
            _when(
                EQUAL, this.fcntl,
                _load(SECOND_ARGUMENT) + _when(EQUAL, F_SETSIG, deny)
                + b"".join(_when(EQUAL, command, _return(IGNORE)) for command in LOCKING)
                + _when(EQUAL, F_SETLEASE, deny) + _when(EQUAL, F_NOTIFY, deny)
                + _when(AT_LEAST, F_GET_RW_HINT, deny) + _return(ALLOW),
            ),
            # pathlib's touch tries the present first, and creates the file if that fails. Given
            # times may be the present, too, but only in memory that a filter cannot read.
            _when(
                EQUAL, this.utimensat,
                _if_given(THIRD_ARGUMENT, _return(IGNORE)) + deny,
            ),
            # Sessions are counted for the whole machine, and /proc/self/autogroup has the count.
            _when(EQUAL, this.setsid, _return(IGNORE)),
            _when(
                EQUAL, this.clone,
                _load(FIRST_ARGUMENT) + _instruction(AND, 0, 0, EXIT_SIGNAL)
                + _when(EQUAL, SIGKILL, deny) + _return(ALLOW),
            ),
            _when(
                EQUAL, this.setrlimit,
                _load(FIRST_ARGUMENT) + _when(EQUAL, RLIMIT_CPU, deny) + _return(ALLOW),
            ),
            _when(  # prlimit only reads if its third argument is NULL
                EQUAL, this.prlimit,
                _load(SECOND_ARGUMENT) + _unless(EQUAL, RLIMIT_CPU, _return(ALLOW))
                + _if_given(THIRD_ARGUMENT, deny) + _return(ALLOW),
            ),
            _return(ALLOW),
        ]
    )  # fmt: skip


def _if_given(argument: int, block: bytes) -> bytes:
    """Run `block`, which ends in a return, if a pointer is not NULL."""
    return b"".join(
        _load(half) + _when(AT_LEAST, 1, block) for half in (argument, argument + HIGH_HALF)
    )


def _machine(name: str | None) -> Machine:
    """The table of a machine, by default of this one."""
    name = name or platform.machine()
    if name not in MACHINES:
        raise SandboxUnavailable(
            f"no list of system calls for a {name} processor: add one to {__name__}"
        )
    return MACHINES[name]


def _of_this_architecture(this: Machine) -> list[bytes]:
    """Kill a process that makes calls of another architecture; load the number of the call."""
    return [
        _load(ARCHITECTURE), _unless(EQUAL, this.audit, _return(KILL)),
        _load(NUMBER), _when(AT_LEAST, X32_BIT, _return(KILL)),
    ]  # fmt: skip


def _instruction(code: int, if_true: int, if_false: int, operand: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _load(offset: int) -> bytes:
    return _instruction(LOAD, 0, 0, offset)


def _return(action: int) -> bytes:
    return _instruction(RETURN, 0, 0, action)


def _when(test: int, operand: int, block: bytes) -> bytes:
    """Run `block`, which ends in a return, if the test is true; otherwise continue after it."""
    return _instruction(test, 0, len(block) // 8, operand) + block


def _unless(test: int, operand: int, block: bytes) -> bytes:
    """Run `block`, which ends in a return, if the test is false; otherwise continue after it."""
    return _instruction(test, len(block) // 8, 0, operand) + block
