"""A seccomp filter that denies the system calls that a submission may not make.

It is a deny-list, because torch and its libraries use several hundred calls. It denies calls that
reach beyond the sandbox's namespaces (kernel keyrings, nested namespaces, mounts, other processes'
memory), calls that have been used to attack the kernel (io_uring, bpf, userfaultfd, perf events),
calls that allocate memory which no per-process limit counts (memfd, System V and POSIX queues), and
calls that change the limits or priorities of another process: limits set on the zygote would apply
to every later submission. With a GPU, one of these calls is allowed, because CUDA cannot start
without it. Without namespaces, more calls are denied: those that reach a network, other processes,
or named objects that other processes have left behind.

The filter is classic BPF, 8 bytes per instruction; see seccomp(2). A denied call fails with EPERM.
clone3 fails with ENOSYS, because its flags are in memory that a filter cannot read; the C library
then falls back to clone, whose flags the filter can read.
"""

import errno
import platform
import struct
from typing import NamedTuple

from grader.errors import SandboxUnavailable


class Machine(NamedTuple):
    """A processor architecture: its audit number, and the numbers of its system calls."""

    audit: int
    clone: int
    clone3: int
    socket: int
    socketpair: int
    prlimit: int
    denied: dict[str, int]
    denied_without_namespaces: dict[str, int]


COMMON = {  # the same numbers on every machine
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip

MACHINES = {
    "x86_64": Machine(0xC000003E, clone=56, clone3=435, socket=41, socketpair=53, prlimit=302,
                      denied=COMMON | {
        "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "ptrace": 101, "syslog": 103,
        "personality": 135, "modify_ldt": 154, "pivot_root": 155, "chroot": 161, "acct": 163,
        "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172,
        "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "mq_open": 240,
        "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
        "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
        "kcmp": 312, "finit_module": 313, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321,
        "userfaultfd": 323, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144,
        "sched_setaffinity": 203, "ioprio_set": 251, "sched_setattr": 314,
    }, denied_without_namespaces={
        "socket": 41, "connect": 42, "bind": 49, "listen": 50, "accept": 43, "accept4": 288,
        "inotify_init": 253, "inotify_init1": 294, "sethostname": 170, "setdomainname": 171,
        "mq_unlink": 241, "shmctl": 31, "semctl": 66, "msgctl": 71,
    }),
    "aarch64": Machine(0xC00000B7, clone=220, clone3=435, socket=198, socketpair=199, prlimit=261,
                       denied=COMMON | {
        "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "quotactl": 60, "acct": 89,
        "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105,
        "delete_module": 106, "syslog": 116, "ptrace": 117, "reboot": 142, "mq_open": 180,
        "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196, "add_key": 217,
        "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225, "perf_event_open": 241,
        "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
        "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
        "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
        "ioprio_set": 30, "sched_setparam": 118, "sched_setscheduler": 119,
        "sched_setaffinity": 122, "setpriority": 140, "sched_setattr": 274,
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

LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = (
    0,
    4,
    16,
    24,
)  # offsets in struct seccomp_data
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def program(machine: str | None = None, *, cuda: bool = False, namespaces: bool = True) -> bytes:
    """The filter for a machine (by default this one), in the form that `bwrap --seccomp` reads.

    Args:
        machine: The name of its architecture, such as "x86_64".
        cuda: Whether CUDA must work.
        namespaces: Whether the filtered processes have network and IPC namespaces of their own; if
            not, all sockets except socket pairs are denied.

    Raises:
        SandboxUnavailable: There is no table of system calls for that machine.
    """
    name = machine or platform.machine()
    if name not in MACHINES:
        raise SandboxUnavailable(
            f"no list of system calls for a {name} processor: add one to {__name__}"
        )
    this = MACHINES[name]
    deny = _return(ERRNO | errno.EPERM)
    denied = [
        number for name, number in this.denied.items() if not (cuda and name in NEEDED_BY_CUDA)
    ]
    if not namespaces:
        denied += this.denied_without_namespaces.values()
    return b"".join(
        [
            _load(ARCHITECTURE), _unless(EQUAL, this.audit, _return(KILL)),
            _load(NUMBER), _when(AT_LEAST, X32_BIT, _return(KILL)),
            *(_when(EQUAL, number, deny) for number in sorted(denied)),
            _when(EQUAL, this.clone3, _return(ERRNO | errno.ENOSYS)),
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
            b"" if namespaces else _when(
                EQUAL, this.socketpair,
                _load(FIRST_ARGUMENT) + _unless(EQUAL, AF_UNIX, deny)
                + _load(SECOND_ARGUMENT) + _instruction(AND, 0, 0, TYPE_OF_SOCKET)
                + _when(EQUAL, SOCK_STREAM, _return(ALLOW))
                + _unless(EQUAL, SOCK_SEQPACKET, deny) + _return(ALLOW),
            ),
            _return(ALLOW),
        ]
    )  # fmt: skip


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
