"""What the zygote does with its heap before it forks."""

import os
import subprocess
import sys

import pytest

from grader.worker.kernel import LIBC

# Frees every second object, so that there is free memory between the others.
IN_A_PROCESS_OF_ITS_OWN = """
import ctypes
from grader.worker import heap

LIBC = ctypes.CDLL(None)

def free_between_objects():
    counts = LIBC.mallinfo()
    return counts.fordblks - counts.keepcost

LIBC.mallinfo.restype = heap._Mallinfo
objects = [bytes(number % 3000) for number in range(20_000)]
del objects[::2]
before = free_between_objects()
heap.use_up_free_memory()
print(before, free_between_objects())
"""


@pytest.mark.skipif(not hasattr(LIBC, "mallinfo"), reason="needs glibc")
def test_no_free_memory_is_left_between_objects() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN],
        env={**os.environ, "PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    before, after = map(int, ran.stdout.split())
    assert before > 5_000_000
    assert after < 100_000
