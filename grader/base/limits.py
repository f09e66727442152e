"""Limits that a process sets itself; none of them ever gets higher."""

import resource
from pathlib import Path


def mapped_bytes() -> int:
    """The size of this process's address space, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def lower(limit: int, to: int) -> None:
    """Lower one of this process's limits, such as `resource.RLIMIT_AS`."""
    _, most = resource.getrlimit(limit)
    resource.setrlimit(limit, (to if most == resource.RLIM_INFINITY else min(to, most), most))
