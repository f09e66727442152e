"""What the zygote does before its first fork and after a test, and the memory of its children."""

import resource
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from grader.base.errors import Crashed, TimedOut
from grader.sandbox.sandbox import Sandbox
from grader.worker.zygote import RunningChild
from tests.grader.in_the_sandbox import COURSE, LEVELS, LOOK, MIB, answer, ask, session, warm
from tests.grader.processes import ran

ROOT = Path(__file__).resolve().parents[3]
# What every child does before it runs student code.
IN_A_NEW_INTERPRETER = """
import random, sys
import numpy as np
import torch
from grader.worker import leftovers, zygote

zygote.import_slow_packages([])
before = set(sys.modules)
assert not {"torch._dynamo.eval_frame", "torch.fx.experimental.symbolic_shapes"} & before
assert leftovers.changed(leftovers.surroundings()) == []
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.proof
def test_a_child_need_not_import_what_every_child_needs() -> None:
    """Each of a thousand children would otherwise import it anew."""
    done = ran([sys.executable, "-c", IN_A_NEW_INTERPRETER], cwd=ROOT)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


IMPORTED = """
    import sys
    before = set(sys.modules)
    def f(name):
        return name in before
"""


@warm
def test_a_course_says_what_is_imported_before_its_tests(sandbox):
    """Preloading takes no test's time."""
    assert all(answer(sandbox, IMPORTED, name) for name in COURSE.preload)


# Import torch's compiler, each in its own way.
NEEDS_THE_COMPILER = """
    import sys
    import torch
    before = set(sys.modules)
    def f():
        torch.use_deterministic_algorithms(True)
        torch.compiler.reset()
        return "torch._dynamo.eval_frame" in before
"""


@warm
def test_the_compiler_is_imported_before_the_student_needs_it(sandbox):
    """Imported later, it would cost the student's time, and run into a tripwire for `adamw`."""
    for forbidden in (COURSE.problem("adamw").forbidden, ()):
        assert answer(sandbox, NEEDS_THE_COMPILER, forbidden=forbidden), forbidden
    # The memory of the compiler is the sandbox's, not the student's.
    grown = "def f():\n    import torch\n    return torch.ones(50 * 2**20).numel()\n"
    assert answer(sandbox, grown, memory_bytes=312 * MIB) == 50 * MIB


@pytest.mark.proof
def test_a_new_box_imports_the_compiler_before_the_student_needs_it():
    """In the warm box, an earlier test may have had it imported."""
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB) as own:
        assert not answer(own, IMPORTED, "torch._dynamo.eval_frame")
        assert answer(own, NEEDS_THE_COMPILER, forbidden=COURSE.problem("adamw").forbidden)


RESISTS = """
    import os, time
    def litters():
        os.makedirs("/tmp/a/b")
        os.mkfifo("/tmp/pipe")
        os.symlink("/", "/tmp/a/root")
        open("/tmp/.hidden", "w").close()
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(1000)
                os._exit(0)
    def hangs():
        litters()
        time.sleep(1000)
    def closed():
        os.makedirs("/tmp/a/b/c")
        open("/tmp/a/b/file", "w").close()
        os.symlink("/course", "/tmp/a/b/link")
        for folder in ("/tmp/a/b/c", "/tmp/a/b", "/tmp/a", "/tmp/submission"):
            os.chmod(folder, 0)
    def deep():
        for _ in range(3000):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    def many():
        for i in range(4000):
            os.mkdir(f"/tmp/{i}", 0)
    def named():
        for name in (b"\\xff", b"-rf", b"\\n", b"a" * 255):
            os.mkdir(b"/tmp/" + name)
            os.mkfifo(b"/tmp/" + name + b"/pipe"[:255])
"""


@warm
@pytest.mark.parametrize("way", ["litters", "hangs", "closed", "deep", "many", "named"])
def test_whatever_a_test_leaves_is_removed_by_the_same_zygote(way, sandbox):
    """Links, pipes and daemons; closed folders, long paths, thousands of files, odd names."""
    before = sandbox.host_pid
    seconds = 0.4 if way == "hangs" else 120.0
    limited = session(sandbox, RESISTS, wall_seconds=seconds)
    with limited as made, suppress(Crashed, TimedOut):  # the first with too many files
        ask(made, function=way)
    assert (["submission"], 2) == answer(sandbox, LOOK)
    assert before == sandbox.host_pid


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
    """Or as the largest integer, so a value that was never set is wrong alike in every run."""
    nan, integers, version = answer(sandbox, UNINITIALISED)
    assert [True] * 18 == nan
    assert [[n, n] for n in (2**63 - 1, 2**31 - 1, 255)] == integers
    assert version == 0


@warm
def test_filling_memory_refuses_no_operation(sandbox):
    """torch has no deterministic put_."""
    source = (
        "import torch\ndef f(): return torch.zeros(3).put_(torch.tensor([0, 2]), torch.ones(2))"
    )
    with session(sandbox, source) as made:
        assert [1.0, 0.0, 1.0] == ask(made).tolist()


SHARES = """
    import os, time
    def f(size, processes):
        kept = bytearray(size)
        kept[::4096] = b"x" * len(kept[::4096])
        for _ in range(processes):
            if os.fork() == 0:
                time.sleep(0.5)  # many looks
                os._exit(0)
        return [os.wait()[1] for _ in range(processes)]
"""


@warm
@pytest.mark.parametrize("level", LEVELS)
def test_memory_that_processes_of_a_test_share_counts_once(plain, level):
    """Its processes have 200 MiB, if each is counted by itself."""
    assert [0] * 3 == answer(plain(level), SHARES, 50 * MIB, 3, memory_bytes=100 * MIB)


def test_what_it_takes_to_look_at_a_tests_memory_is_the_tests_time():
    assert RunningChild(1, 0, None, looking_seconds=2.0).used([]) == 2.0


def test_a_process_that_no_look_has_seen_counts_once_it_has_ended():
    """Its parent has left it to the zygote."""
    used = resource.struct_rusage([1.5, 0.5, *[0] * 14])
    child = RunningChild(1, 0, None)
    child.count(2, 0, used, 0)
    assert child.used([]) == 2.0
