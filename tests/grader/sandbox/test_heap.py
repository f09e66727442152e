"""What the zygote does with its heap before it forks."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from grader.worker.kernel import LIBC

CHUNKS = """
import ctypes
from grader.worker import heap

LIBC = ctypes.CDLL(None)
LIBC.mallinfo.restype = heap._Mallinfo

def free_between_objects():
    counts = LIBC.mallinfo()
    return counts.fordblks - counts.keepcost

objects = [bytes(number % 3000) for number in range(20_000)]
del objects[::2]
before = free_between_objects()
heap.use_up_free_memory()
print(before, free_between_objects())
"""
POOLS = """
from grader.worker import heap

def pools_of_new_objects():
    new = [bytes(number % 400) for number in range(4000)]
    return len({id(one) // heap.POOL_BYTES for one in new})

objects = [bytes(number % 400) for number in range(400_000)]
del objects[::20]
before = pools_of_new_objects()
heap.use_up_free_memory()
print(before, pools_of_new_objects())
"""
HUGE = """
from pathlib import Path
from grader.worker import heap

def huge_kib():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))

objects = [bytes(400) for _ in range(200_000)]
before = huge_kib()
heap.use_huge_pages()
print(before, huge_kib())
"""
NEWER_THAN_6_0 = tuple(map(int, platform.release().split("-")[0].split(".")[:2])) > (6, 0)
ALLOWED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def printed(program: str, **environment: str) -> list[int]:
    """The numbers that a program prints in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return list(map(int, ran.stdout.split()))


@pytest.mark.skipif(not hasattr(LIBC, "mallinfo"), reason="needs glibc")
def test_no_free_memory_is_left_between_large_objects() -> None:
    """Every second object was freed."""
    before, after = printed(CHUNKS, PYTHONMALLOC="malloc")
    assert before > 5_000_000
    assert after < 100_000


def test_new_small_objects_lie_next_to_each_other() -> None:
    """The new objects occupy 1 MB, which is 64 pools, and each of their sizes one more."""
    before, after = printed(POOLS)
    assert before > 500
    assert after < 100


@pytest.mark.skipif(
    not NEWER_THAN_6_0 or not ALLOWED.exists() or "[never]" in ALLOWED.read_text(),
    reason="needs huge pages and Linux 6.1",
)
def test_the_memory_of_small_objects_lies_in_huge_pages() -> None:
    before, after = printed(HUGE)
    assert before < 10_000
    assert after > 30_000
