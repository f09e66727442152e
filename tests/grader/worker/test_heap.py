"""What the zygote does with its heap before it forks."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.base.errors import Status
from grader.grading.grade import grade
from grader.submission.submissions import Submission
from grader.worker.kernel import LIBC
from tests.grader.in_the_sandbox import COURSE, answer, ask, session, warm
from tests.grader.told import told

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
        timeout=600,
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


UNINITIALISED = """
    import torch
    from torch import empty
    def f():
        used = [torch.rand(50) for _ in range(100)]  # so that there is memory with something in it
        del used
        with torch.inference_mode():
            inferred = empty(50)
        x = torch.ones(2, 3)
        made = [
            empty(50), empty(5, 10).T, torch.empty_like(x), torch.empty_like(x.double()),
            x.new_empty(50), inferred, torch.Tensor(2, 3), torch.FloatTensor(50), x.new(50),
            torch.empty_strided((2, 3), (1, 2)), torch.zeros(0).resize_(50),
            torch.empty_permuted((2, 3), (1, 0)), torch.nn.Parameter(empty(50)),
            torch.zeros(0).resize_as_(x), torch.nn.utils.skip_init(torch.nn.Linear, 5, 5).weight,
            torch.nn.Linear(5, 5, device="meta").to_empty(device="cpu").bias,
            empty(50, dtype=torch.bfloat16), empty(50, dtype=torch.float8_e4m3fn).float(),
        ]
        integers = [empty(50, dtype=d) for d in (torch.int64, torch.int32, torch.uint8)]
        ranges = [[int(i.min()), int(i.max())] for i in integers]
        return [bool(m.isnan().all()) for m in made], ranges, empty(3)._version
"""


@warm
def test_memory_that_was_never_written_reads_as_nan(sandbox):
    """Uninitialized memory reads as NaN or as the largest integer, however it is allocated.

    A value that was never set is therefore wrong in the same way in every run.
    """
    nan, integers, version = answer(sandbox, UNINITIALISED)
    assert [True] * 18 == nan
    assert [[n, n] for n in (2**63 - 1, 2**31 - 1, 255)] == integers
    assert version == 0


@warm
def test_filling_memory_refuses_no_operation_and_warns_of_none(sandbox):
    """torch has no deterministic put_ and would normally warn about it."""
    source = (
        "import torch\ndef f():\n"
        "    return torch.zeros(3).put_(torch.tensor([0, 2]), torch.ones(2))\n"
    )
    with session(sandbox, source) as made:
        assert [1.0, 0.0, 1.0] == ask(made).tolist()
        made.close()
        assert made.printed == ""


@warm
def test_a_weight_that_was_never_set_fails_the_same_tests_in_every_run(sandbox):
    """Two runs with one seed give the same messages; with another seed, the same tests fail."""
    honest = (COURSE.reference / "linear.py").read_text()
    forgetful = honest.replace(
        "nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)", "weight"
    )
    assert forgetful != honest
    submission = Submission("forgetful", {"assignment/linear.py": forgetful.encode()}, [])
    before, problems = {}, [COURSE.problem("linear")]
    for seed in (0, 1, 0):
        options = {"problems": problems, "seed": seed, "explain": False}
        result = grade(submission, COURSE, sandbox, **options)
        texts = {(t.id, t.status, told("", t)) for t in result.problems[0].tests}
        assert texts == before.setdefault(seed, texts), "two runs with one seed"
    failed = {
        seed: {name for name, status, _ in texts if status is Status.FAILED}
        for seed, texts in before.items()
    }
    words = [
        {(name, re.sub(r"\d+", "#", message)) for name, _, message in texts}
        for texts in before.values()
    ]
    assert failed[0]
    assert failed[0] == failed[1]
    assert words[0] == words[1], "except for the sizes that a seed generates"
