"""The limits that a shell or a scheduler has set for the grader, and so for every process that it starts.

One that is too low would end processes in the middle of a test, as if the student's code had done so. So all of them are looked
at before the first process is started: what may be raised is raised, and what may not is a fault of this machine.
"""

import resource
from typing import NamedTuple

from grader.errors import SandboxUnavailable

KIB, GIB = 2**10, 2**30


class Need(NamedTuple):
    """What grading needs of one limit.

    Attributes:
        which: The limit.
        option: What `ulimit` calls it.
        of: What it limits.
        least: How much is needed, in the kernel's unit.
        unit: How many of the kernel's units are one of `ulimit`'s.
        unit_name: The name of ulimit's unit.
    """

    which: int
    option: str
    of: str
    least: int
    unit: int
    unit_name: str


def needs(scratch_bytes: int) -> list[Need]:
    """What the grader, its sandbox and a test of a usual course need of each limit."""
    return [
        Need(resource.RLIMIT_NOFILE, "-n", "open files", 256, 1, ""),
        Need(resource.RLIMIT_NPROC, "-u", "processes", 64, 1, ""),
        Need(
            resource.RLIMIT_CPU, "-t", "processor time", 120, 1, " s"
        ),  # of one process: the grader's own takes the most
        Need(resource.RLIMIT_FSIZE, "-f", "the size of files", scratch_bytes, KIB, " KiB"),
        Need(resource.RLIMIT_AS, "-v", "address space", 4 * GIB, KIB, " KiB"),
        Need(resource.RLIMIT_DATA, "-d", "data in memory", 4 * GIB, KIB, " KiB"),
        Need(resource.RLIMIT_STACK, "-s", "stacks", 8 * KIB * KIB, KIB, " KiB"),
    ]


def raise_limits(scratch_bytes: int) -> None:
    """Raise each limit that this process inherited to what grading needs, where it is lower.

    Args:
        scratch_bytes: What a test may write.

    Raises:
        SandboxUnavailable: One of them may not be raised so far; the text says which, and to what.
    """
    for need in needs(scratch_bytes):
        soft, hard = resource.getrlimit(need.which)
        if _covers(soft, need.least):
            continue
        if not _covers(hard, need.least):
            got, needed = hard // need.unit, -(-need.least // need.unit)
            raise SandboxUnavailable(
                f"the limit on {need.of} (ulimit {need.option}) is {got}{need.unit_name} here, and grading needs "
                f"{needed}{need.unit_name}: start the grader from a shell or job whose hard limit is as high"
            )
        resource.setrlimit(need.which, (need.least, hard))


def _covers(limit: int, least: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= least
