"""A seccomp filter that denies the system calls that a submission may not make.

It is a deny-list, because torch and its libraries use several hundred calls. It denies calls that
reach beyond the sandbox's namespaces or have been used to attack the kernel; calls that tell or
leave something about files that Landlock does not protect, or about what is in the machine's memory
of a file that all boxes share; and calls that change the limits or priorities of another process:
limits set on the zygote would apply to every later submission.

It also denies every way to hold memory that is in no process's resident set, because that set is
what the zygote counts. The buffers of sockets are in no resident set either, so they cannot be
enlarged. With a GPU, memory files and shared memory without a file are allowed, because CUDA needs
the first and nobody has checked that it does not need the second. Without namespaces, more calls
are denied: those that reach a network, other processes, or named objects that other processes have
left behind. With a GPU and without namespaces, ioctl is limited to the requests of ioctls.py, and a
process may bind sockets that nobody can connect to.

A second filter (`of_tests`) holds for the processes of a test only, not for their zygote, which
still sets the times of the writable folder. A test cannot set times: anybody may set those of a
device to the present, and they outlive the box. Locks of parts of a file are ignored: each holds
memory of the kernel that nobody counts, and other boxes see it, but sqlite3 refuses to work where
locks fail.

This filter also denies every way to have the kernel send SIGKILL. Therefore a process that dies of
SIGKILL was killed by its zygote, which says so, or by somebody outside: by the kernel, because
memory ran out, or by a person. Code that must end a process of its own uses SIGTERM.

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

# The numbers of system calls: on x86_64, and on aarch64, which lacks some of them.
Group = dict[str, tuple[int, int | None]]
DENIED: Group = {
    # Namespaces and mounts.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "statmount": (457, 457),
    "listmount": (458, 458), "listns": (470, 470),
    # Keys.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Ways into the kernel.
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "syslog": (103, 116),
    "personality": (135, 92), "modify_ldt": (154, None), "iopl": (172, None),
    "ioperm": (173, None), "reboot": (169, 142), "acct": (163, 89), "swapon": (167, 224),
    "swapoff": (168, 225),
    # Other processes.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "setpriority": (141, 140),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    # Files by other means.
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "file_getattr": (468, 468),
    "file_setattr": (469, 469),
    # Owners and times.
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    # Memory that nobody counts.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "sendfile": (40, 71), "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75),
    "io_setup": (206, 0),
}  # fmt: skip
DENIED_WITHOUT_GPU: Group = {
    # Pages and places of memory.
    "mincore": (27, 232), "cachestat": (451, 451), "mbind": (237, 235),
    "get_mempolicy": (239, 236), "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # Watches.
    "inotify_init": (253, None), "inotify_init1": (294, 26),
}  # fmt: skip
DENIED_WITHOUT_NAMESPACES: Group = {
    # Sockets.
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    # Watches.
    "inotify_init": (253, None), "inotify_init1": (294, 26),
    # Names of the machine.
    "sethostname": (170, 161), "setdomainname": (171, 162), "mq_unlink": (241, 181),
    "shmctl": (31, 195), "semctl": (66, 191), "msgctl": (71, 187),
}  # fmt: skip
ATTRIBUTES: Group = {
    "setxattrat": (463, 463), "getxattrat": (464, 464), "listxattrat": (465, 465),
    "removexattrat": (466, 466), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10),
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
# They send a signal.
KILLS: Group = {
    "pidfd_send_signal": (424, 424), "kill": (62, 129), "rt_sigqueueinfo": (129, 138),
    "tkill": (200, 130), "tgkill": (234, 131), "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
IGNORED: Group = {
    "readahead": (187, 213), "fadvise64": (221, 223),
}  # fmt: skip
# They are denied with some arguments only.
WITH_ARGUMENTS: Group = {
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199),
    "prlimit": (302, 261), "mmap": (9, 222), "ioctl": (16, 29), "fcntl": (72, 25),
    "fallocate": (285, 47), "setsockopt": (54, 208), "setrlimit": (160, 164),
    "timer_create": (222, 107), "preadv2": (327, 286), "getsockopt": (55, 209),
    "utimensat": (280, 88), "setsid": (112, 157),
}  # fmt: skip
GROUPS = (
    DENIED, DENIED_WITHOUT_GPU, DENIED_WITHOUT_NAMESPACES, ATTRIBUTES, KILLS, IGNORED,
    WITH_ARGUMENTS,
)  # fmt: skip
# Rules of Landlock keep files alive that no process shows to hold.
LANDLOCK = (444, 445, 446)
# The audit number of each architecture.
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


class Machine(NamedTuple):
    """A processor architecture: its audit number, and the numbers of its system calls."""

    audit: int
    calls: dict[str, int]

    def those(self, group: Group) -> dict[str, int]:
        """The calls of a group that it has, with their numbers."""
        return {name: self.calls[name] for name in group if name in self.calls}

    def at(self, call: str, block: bytes) -> bytes:
        """Run `block`, which ends in a return, at this call; otherwise continue after it."""
        return _when(EQUAL, self.calls[call], block)


MACHINES = {
    name: Machine(
        audit,
        {
            call: number
            for group in GROUPS
            for call, numbers in group.items()
            if (number := numbers[place]) is not None
        },
    )
    for place, (name, audit) in enumerate(AUDIT.items())
}

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
    groups = [DENIED, {} if cuda else DENIED_WITHOUT_GPU]
    groups.append({} if namespaces else DENIED_WITHOUT_NAMESPACES)
    denied = {name: number for group in groups for name, number in this.those(group).items()}
    for name in NEEDED_BY_CUDA | BOUND_BY_CUDA if cuda else ():
        denied.pop(name, None)
    no_attributes = _return(ERRNO | errno.ENOTSUP)
    rules = [
        *_of_this_architecture(this),
        *(_when(EQUAL, number, deny) for number in sorted(denied.values())),
        # As on a file system without attributes, so that shutil.copy2 works.
        *(this.at(call, no_attributes) for call in this.those(ATTRIBUTES)),
        *(this.at(call, _return(IGNORE)) for call in this.those(IGNORED)),
        this.at("clone3", _return(ERRNO | errno.ENOSYS)),
    ]
    if not namespaces:
        # Space that is reserved at once would fill a shared disk between two looks of the zygote.
        # The C library then writes instead.
        rules.append(this.at("fallocate", _return(ERRNO | errno.ENOTSUP)))
        rules += [this.at(call, _only_streams(deny)) for call in ("socketpair", "socket")]
        if cuda:
            rules.append(this.at("ioctl", _listed_requests(deny)))
    rules += [this.at(call, block) for call, block in _denied_arguments(deny).items()]
    if not cuda:
        rules.append(this.at("mmap", _no_shared_memory_without_a_file(deny)))
    return b"".join([*rules, _return(ALLOW)])


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


def _denied_arguments(deny: bytes) -> dict[str, bytes]:
    """Rules for calls that are allowed with some arguments only."""
    allow = _return(ALLOW)
    return {
        "clone": _load(FIRST_ARGUMENT) + _when(ANY_BIT, NEW_NAMESPACES, deny) + allow,
        "socket": _load(FIRST_ARGUMENT) + _unless(EQUAL, AF_UNIX, deny) + allow,
        "prlimit": _load(FIRST_ARGUMENT) + _unless(EQUAL, OWN_PROCESS, deny) + allow,
        "setsockopt": (
            _load(THIRD_ARGUMENT)
            + _when(EQUAL, socket.SO_SNDBUF, deny)
            + _when(EQUAL, socket.SO_RCVBUF, deny)
            + allow
        ),
        "ioctl": (
            _load(SECOND_ARGUMENT)
            + b"".join(_when(EQUAL, number, deny) for number in SETTING_ATTRIBUTES)
            + allow
        ),
        "preadv2": (
            _load(SIXTH_ARGUMENT)
            + _when(ANY_BIT, OF_PAGES_IN_MEMORY, _return(ERRNO | errno.EOPNOTSUPP))
            + allow
        ),
        "getsockopt": (
            _load(SECOND_ARGUMENT)
            + _unless(EQUAL, SOL_SOCKET, allow)
            + _load(THIRD_ARGUMENT)
            + _when(EQUAL, SO_COOKIE, deny)
            + _when(EQUAL, SO_NETNS_COOKIE, deny)
            + allow
        ),
    }


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
    allow, ignore = _return(ALLOW), _return(IGNORE)
    signal_is = dict.fromkeys(KILLS, SECOND_ARGUMENT)
    signal_is |= {"tgkill": THIRD_ARGUMENT, "rt_tgsigqueueinfo": THIRD_ARGUMENT}
    rules = {
        call: _load(signal_is[call]) + _when(EQUAL, SIGKILL, deny) + allow for call in KILLS
    } | {
        # Which signal a timer sends is in memory that a filter cannot read.
        "timer_create": allow if cuda else deny,
        "fcntl": (
            _load(SECOND_ARGUMENT)
            + _when(EQUAL, F_SETSIG, deny)
            + b"".join(_when(EQUAL, command, ignore) for command in LOCKING)
            + _when(EQUAL, F_SETLEASE, deny)
            + _when(EQUAL, F_NOTIFY, deny)
            + _when(AT_LEAST, F_GET_RW_HINT, deny)
            + allow
        ),
        # pathlib's touch tries the present first, and creates the file if that fails. Given times
        # may be the present, too, but only in memory that a filter cannot read.
        "utimensat": _if_given(THIRD_ARGUMENT, ignore) + deny,
        # Sessions are counted for the whole machine, and /proc/self/autogroup has the count.
        "setsid": ignore,
        "clone": (
            _load(FIRST_ARGUMENT)
            + _instruction(AND, 0, 0, EXIT_SIGNAL)
            + _when(EQUAL, SIGKILL, deny)
            + allow
        ),
        "setrlimit": _load(FIRST_ARGUMENT) + _when(EQUAL, RLIMIT_CPU, deny) + allow,
        # It only reads if its third argument is NULL.
        "prlimit": (
            _load(SECOND_ARGUMENT)
            + _unless(EQUAL, RLIMIT_CPU, allow)
            + _if_given(THIRD_ARGUMENT, deny)
            + allow
        ),
    }
    return b"".join(
        [
            *_of_this_architecture(this),
            *(_when(EQUAL, number, deny) for number in LANDLOCK),
            *(this.at(call, block) for call, block in rules.items()),
            allow,
        ]
    )


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
