"""The resource limits of the container that this process runs in, read from its control group."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 2**60  # the first version of control groups writes "no limit" as a large number


@dataclass(frozen=True)
class Container:
    """The resource limits of a container."""

    processors: float  # the number of processors, which may be a fraction
    memory_bytes: int | None  # the memory; None if it is not limited

    def __str__(self) -> str:
        memory = "all memory" if self.memory_bytes is None else f"{self.memory_bytes >> 20} MiB"
        return f"{self.processors:g} processors and {memory}"


def of_this_process(
    groups: Path = CONTROL_GROUPS, own: Path = Path("/proc/self/cgroup")
) -> Container:
    """Read the limits of this process's control group, for version 1 or 2 of control groups.

    Args:
        groups: The folder of the control groups.
        own: The file that names this process's group.
    """
    processors = float(len(os.sched_getaffinity(0)))
    memory = None
    for folder in _folders(groups, own):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            processors = min(processors, int(quota) / int(period))
        with suppress(OSError, ValueError):
            microseconds = int((folder / "cpu.cfs_quota_us").read_text())
            period_microseconds = int((folder / "cpu.cfs_period_us").read_text())
            if microseconds > 0:
                processors = min(processors, microseconds / period_microseconds)
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limit = int((folder / name).read_text())
                if limit < UNLIMITED_BYTES:
                    memory = limit if memory is None else min(memory, limit)
    return Container(processors, memory)


def _folders(groups: Path, own: Path) -> list[Path]:
    """The folders that may describe this process's group, and their parents."""
    found = {groups, groups / "cpu", groups / "memory"}
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for top in (groups, *(groups / name for name in controllers.split(",") if name)):
                place = top / path.strip("/")
                found |= {place, *(p for p in place.parents if p.is_relative_to(top))}
    return sorted(found)
