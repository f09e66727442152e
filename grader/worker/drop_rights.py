"""Landlock and other system calls with which a process gives up rights permanently.

See landlock(7), capabilities(7) and seccomp(2). Nothing here imports torch.
"""

import ctypes
import os
import struct
from collections.abc import Iterable

LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 1, 4, 8
PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 22, 36, 38
SECCOMP_MODE_FILTER = 2
CAPABILITIES_VERSION = 0x20080522
CAP_SETGID, CAP_SETUID = 6, 7

# The same numbers on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GIVE_VERSION = 1
RULE_PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
# How many rights to files each version of Landlock has, and how many all later versions have.
RIGHTS_KNOWN = {1: 13, 2: 14, 3: 15, 4: 15}
RIGHTS_KNOWN_LATER = 16
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
USE_DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV
BIND_OR_CONNECT_TCP = 3  # since version 4
ABSTRACT_SOCKETS_AND_SIGNALS = 3  # since version 6


def restrict(allowed: Iterable[tuple[str, int]]) -> None:
    """Deny this process and its children all access to files, except what is allowed.

    Access to the network and to other processes is denied as far as the kernel supports that.

    Args:
        allowed: Paths, each with its rights; -1 for all rights. The rights to a folder apply to
            everything inside it.

    Raises:
        OSError: The kernel refuses.
    """
    kernel = _checked(LIBC.syscall(CREATE_RULESET, None, 0, GIVE_VERSION))
    rights = (1 << RIGHTS_KNOWN.get(kernel, RIGHTS_KNOWN_LATER)) - 1
    attributes = struct.pack(
        "QQQ",
        rights,
        BIND_OR_CONNECT_TCP if kernel >= 4 else 0,
        ABSTRACT_SOCKETS_AND_SIGNALS if kernel >= 6 else 0,
    )
    size = 24 if kernel >= 6 else 16 if kernel >= 4 else 8
    ruleset = _checked(LIBC.syscall(CREATE_RULESET, attributes, size, 0))
    for path, wanted in allowed:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        given = rights & wanted & (rights if os.path.isdir(path) else OF_A_FILE)
        rule = struct.pack("=Qi", given, opened)
        _checked(LIBC.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0))
        os.close(opened)
    no_new_privileges()
    _checked(LIBC.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def no_new_privileges() -> None:
    """Make sure that programs started by this process cannot gain privileges."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def filter_calls(program: bytes) -> None:
    """Install a seccomp filter for this process and its children."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(instructions))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header, len(header)))


def keep_capabilities(*kept: int) -> None:
    """Give up all capabilities except these."""
    mask = sum(1 << capability for capability in kept)
    header = struct.pack("Ii", CAPABILITIES_VERSION, 0)
    _checked(LIBC.capset(header, struct.pack("6I", mask, mask, 0, 0, 0, 0)))


def prctl(option: int, *arguments: int | ctypes.Array[ctypes.c_char]) -> None:
    """Call prctl(2)."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    _checked(LIBC.prctl(option, *(ctypes.c_ulong(a) if isinstance(a, int) else a for a in padded)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
