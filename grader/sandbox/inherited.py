"""Limits that the grader inherits from its shell or scheduler and passes on to its processes.

A limit that is too low would kill processes in the middle of a test, as if the student's code were
at fault. So all limits are checked before the first process is started. A limit that is too low is
raised; if it cannot be raised, that is a fault of this machine.
"""

import resource
from typing import NamedTuple

from grader.base.errors import SandboxUnavailable

KIB, GIB = 2**10, 2**30


class Need(NamedTuple):
    """The value that grading needs for one limit."""

    which: int  # the limit, such as resource.RLIMIT_NOFILE
    option: str  # the option of `ulimit` that shows the limit
    of: str  # what the limit restricts, in words
    least: int  # the smallest sufficient value, in the kernel's unit
    unit: int  # the size of `ulimit`'s unit, in the kernel's units
    unit_name: str  # the name of `ulimit`'s unit


def needs(scratch_bytes: int) -> list[Need]:
    """The values that the grader, its sandbox and the tests of a typical course need."""
    return [
        Need(resource.RLIMIT_NOFILE, "-n", "open files", 256, 1, ""),
        Need(resource.RLIMIT_NPROC, "-u", "processes", 64, 1, ""),
        # The limit is per process, and the grader's own process uses the most.
        Need(resource.RLIMIT_CPU, "-t", "processor time", 120, 1, " s"),
        Need(resource.RLIMIT_FSIZE, "-f", "the size of files", scratch_bytes, KIB, " KiB"),
        Need(resource.RLIMIT_AS, "-v", "address space", 4 * GIB, KIB, " KiB"),
        Need(resource.RLIMIT_DATA, "-d", "data in memory", 4 * GIB, KIB, " KiB"),
        Need(resource.RLIMIT_STACK, "-s", "stacks", 8 * KIB * KIB, KIB, " KiB"),
    ]


def raise_limits(scratch_bytes: int) -> None:
    """Raise each inherited limit that is lower than what grading needs.

    Args:
        scratch_bytes: How much a test may write.

    Raises:
        SandboxUnavailable: A limit cannot be raised far enough; the message says which one, and
            what value it needs.
    """
    for need in needs(scratch_bytes):
        soft, hard = resource.getrlimit(need.which)
        if _covers(soft, need.least):
            continue
        if not _covers(hard, need.least):
            got, needed = hard // need.unit, -(-need.least // need.unit)
            raise SandboxUnavailable(
                f"the limit on {need.of} (ulimit {need.option}) is {got}{need.unit_name} here, "
                f"and grading needs {needed}{need.unit_name}: "
                "start the grader from a shell or job whose hard limit is at least that high"
            )
        resource.setrlimit(need.which, (need.least, hard))


def _covers(limit: int, least: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= least
