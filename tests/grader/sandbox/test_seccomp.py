"""The system calls that a test may not make."""

import errno

import pytest

from grader.base.errors import (
    GraderFault,
)
from grader.sandbox import seccomp
from tests.grader.in_the_sandbox import MACHINE, SYSCALLS, answer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]


def test_denied_system_calls_fail_with_eperm(sandbox):
    """Every denied call fails: namespaces, keyrings, memory files, other processes, mounts, …"""
    names = sorted(MACHINE.denied)
    got = answer(sandbox, SYSCALLS, [[MACHINE.denied[name], 0, 0, 0, 0, 0] for name in names])
    assert dict.fromkeys(names, errno.EPERM) == dict(zip(names, got, strict=True))
    assert {
        "unshare",
        "keyctl",
        "memfd_create",
        "ptrace",
        "setns",
        "mount",
        "bpf",
        "io_uring_setup",
        "statmount",
        "listmount",
    } <= set(names)


def test_files_have_no_extended_attributes(sandbox):
    """The calls fail as on a file system without attributes."""
    numbers = sorted(MACHINE.attributes.values())
    got = answer(sandbox, SYSCALLS, [[number, 0, 0, 0, 0, 0] for number in numbers])
    assert [errno.ENOTSUP] * len(numbers) == got


def test_clone3_does_not_exist(sandbox):
    """A filter cannot read the flags of clone3; without it, the C library uses clone."""
    assert [errno.ENOSYS] == answer(sandbox, SYSCALLS, [[MACHINE.clone3, 0, 0]])


@pytest.mark.parametrize(
    "flag",
    [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000],
    ids=hex,
)
def test_clone_makes_no_namespace(flag, sandbox):
    """clone can still make processes."""
    assert [errno.EPERM] == answer(sandbox, SYSCALLS, [[MACHINE.clone, flag | 17, 0, 0, 0, 0]])
    assert (
        answer(
            sandbox,
            "import os\ndef f():\n    return os.waitpid(os.fork() or os._exit(5), 0)[1] >> 8\n",
        )
        == 5
    )


def test_sockets_are_local(sandbox):
    """Libraries use connected pairs of sockets internally."""
    assert [0] == answer(sandbox, SYSCALLS, [[MACHINE.socket, 1, 1, 0]])
    assert [errno.EPERM] * 4 == answer(
        sandbox, SYSCALLS, [[MACHINE.socket, family, 1, 0] for family in (2, 10, 16, 17)]
    )


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
