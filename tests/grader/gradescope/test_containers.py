"""What a container may use, read from the folders of both versions of control groups."""

import os

import pytest

from grader.gradescope.harness import Container, container_of_this_process

MIB = 2**20
ALL = float(len(os.sched_getaffinity(0)))

# Files below /sys/fs/cgroup, the text of /proc/self/cgroup, and the resulting limits.
CASES = {
    "nothing is limited": ({}, "", (ALL, None)),
    "version 2, in a namespace of its own": (
        {"cpu.max": "50000 100000", "memory.max": "805306368"}, "0::/\n", (0.5, 768 * MIB),
    ),
    "version 2, without limits": (
        {"cpu.max": "max 100000", "memory.max": "max"}, "0::/\n", (ALL, None),
    ),
    "version 2, where a group above is tighter": (
        {"a/memory.max": str(512 * MIB), "a/b/memory.max": "max", "a/b/cpu.max": "25000 100000"},
        "0::/a/b\n", (0.25, 512 * MIB),
    ),
    "version 1": (
        {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000",
         "memory/memory.limit_in_bytes": "805306368"}, "", (0.5, 768 * MIB),
    ),
    "version 1, seen from outside": (
        {"memory/g/memory.limit_in_bytes": "805306368", "cpu/g/cpu.cfs_quota_us": "-1",
         "memory/memory.limit_in_bytes": "9223372036854771712",
         "cpu/g/cpu.cfs_period_us": "100000"},
        "4:memory:/g\n3:cpu,cpuacct:/g\n", (ALL, 768 * MIB),
    ),
    "files that say nothing": ({"cpu.max": "", "memory.max": "a lot"}, "what\n", (ALL, None)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_tightest_limit_counts(case, tmp_path):
    """A limit of more CPUs than there are is no limit. Earlier tests may have left it fewer."""
    written, groups, (processors, memory) = CASES[case]
    top = tmp_path / "cgroup"
    top.mkdir()
    for name, text in written.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text + "\n")
    own = tmp_path / "own"
    own.write_text(groups)
    processors = min(processors, len(os.sched_getaffinity(0)))
    assert Container(processors, memory) == container_of_this_process(top, own)


def test_it_can_be_read():
    assert "0.5 processors and 768 MiB" == str(Container(0.5, 768 * MIB))
    assert "2 processors and all memory" == str(Container(2.0, None))
