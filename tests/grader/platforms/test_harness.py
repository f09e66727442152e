"""What a container may use, and Gradescope's metadata, from which lateness follows."""

import json
import os
from datetime import datetime

import pytest

from grader.course.late_policy import Policy
from grader.platforms import gradescope_metadata
from grader.platforms.gradescope_metadata import Metadata
from grader.platforms.harness import Container, container_of_this_process

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
    "version 1, without limits": (
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000",
         "memory/memory.limit_in_bytes": "9223372036854771712"}, "", (ALL, None),
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


# --- Gradescope's metadata ------------------------------------------------------------------------


WRITTEN = {
    "created_at": "2026-10-05T09:30:11.123456-07:00",
    "assignment": {"due_date": "2026-10-03T23:59:00.000000-07:00", "title": "Homework 2"},
    "users": [{"email": "ada@example.edu", "id": 1, "name": "Ada"}],
    "previous_submissions": [{"score": 1.0, "results": {}}],
}
LATE = Policy(per_cent_a_day=10)


@pytest.fixture
def written(tmp_path):

    def write(content):
        path = tmp_path / "submission_metadata.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def test_what_gradescope_writes_is_read(written):
    found = gradescope_metadata.read(written(WRITTEN))
    assert datetime.fromisoformat(WRITTEN["created_at"]) == found.created_at
    late = gradescope_metadata.lateness(found, LATE, 50.0)
    assert (2, 20.0, 40.0) == (late.days_late, late.penalty, late.points)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"created_at": "yesterday"}', {"assignment": None}, b"{}"],
)
def test_what_is_missing_or_broken_costs_nothing(written, content, tmp_path):
    """Without valid metadata, no lateness is computed."""
    for path in (written(content), tmp_path / "nowhere"):
        found = gradescope_metadata.read(path)
        assert gradescope_metadata.lateness(found, LATE, 50.0) is None


def test_metadata_that_cannot_be_read_is_told(written, capsys, tmp_path):
    """Nobody counts as late then, and the staff has to know. Other platforms have no such file."""
    gradescope_metadata.read(written(b"\xff"))
    assert "cannot be read, so nobody counts as late: " in capsys.readouterr().err
    gradescope_metadata.read(tmp_path / "nowhere")
    assert capsys.readouterr().err == ""


def test_the_courses_own_deadline_comes_first(written):
    """Without a time zone in the submission time, no lateness is computed."""
    found = gradescope_metadata.read(written(WRITTEN))
    deadlines = {"default": datetime.fromisoformat("2026-10-05T00:00:00-07:00")}
    later = Policy(per_cent_a_day=10, deadlines=deadlines)
    assert 45.0 == gradescope_metadata.lateness(found, later, 50.0).points
    assert gradescope_metadata.lateness(found, Policy(grace_minutes=3000), 50.0) is None
    without_zone = Metadata(created_at=datetime(2026, 10, 5))
    assert gradescope_metadata.lateness(without_zone, later, 50.0) is None
    assert gradescope_metadata.lateness(found, later, None).points is None
