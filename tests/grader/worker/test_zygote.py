"""What the zygote does before its first fork."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from grader.base.errors import Crashed, Status, TimedOut
from grader.sandbox.box import Sandbox
from grader.worker.zygote import RunningChild
from tests.grader.in_the_sandbox import (
    COURSE,
    LEVELS,
    LOOK,
    MIB,
    answer,
    ask,
    fault,
    plain_box,
    session,
    warm,
)

ROOT = Path(__file__).resolve().parents[3]
# What every child does before it runs student code.
IN_A_NEW_INTERPRETER = """
import random, sys
import numpy as np
import torch
from grader.worker import leftovers, zygote

zygote.import_slow_packages([])
before = set(sys.modules)
assert leftovers.changed(leftovers.surroundings()) == []
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_a_child_need_not_import_what_every_child_needs() -> None:
    """Each of a thousand children would otherwise import it anew."""
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_INTERPRETER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


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


def test_the_compiler_is_imported_before_the_student_needs_it():
    """Imported later, it would cost the student's time, and run into a tripwire for `adamw`."""
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB) as own:
        for name in ("torch._dynamo.eval_frame", "torch.fx.experimental.symbolic_shapes"):
            assert not answer(own, IMPORTED, name), "the course preloads nothing"
        for forbidden in (COURSE.problem("adamw").forbidden, ()):
            assert answer(own, NEEDS_THE_COMPILER, forbidden=forbidden), forbidden
        # The memory of the compiler is the sandbox's, not the student's.
        grown = "def f():\n    import torch\n    return torch.ones(100 * 2**20).numel()\n"
        assert answer(own, grown, memory_bytes=512 * MIB) == 100 * MIB


LITTER = """
    import os, time
    def f():
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
        return 1
"""


@warm
def test_nothing_of_a_test_reaches_the_next(sandbox):
    """Files, links, pipes and daemons are gone, also if the test is killed while it runs.

    The next test sees only its own sources, the zygote and itself.
    """
    before = sandbox.host_pid
    assert (answer(sandbox, LITTER), (["submission"], 2)) == (1, answer(sandbox, LOOK))
    source = LITTER.replace("return 1", "while True: pass")
    assert Status.TIMEOUT is fault(sandbox, TimedOut, source, wall_seconds=1.5)[0]
    assert (["submission"], 2) == answer(sandbox, LOOK)
    assert before == sandbox.host_pid


RESISTS = """
    import os
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
@pytest.mark.parametrize("way", ["closed", "deep", "many", "named"])
def test_whatever_a_test_leaves_is_removed_by_the_same_zygote(way, sandbox):
    """The zygote removes everything without a restart.

    The test leaves folders without permissions, paths beyond the maximum length, thousands of
    files, and odd names.
    """
    before = sandbox.host_pid
    with session(sandbox, RESISTS) as made, suppress(Crashed):  # with too many files
        ask(made, function=way)
    assert (["submission"], 2) == answer(sandbox, LOOK)
    assert before == sandbox.host_pid


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


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_memory_that_processes_of_a_test_share_counts_once(level):
    """Its processes have 1,200 MiB, if each is counted by itself."""
    with plain_box(level) as box:
        assert [0] * 3 == answer(box, SHARES, 300 * MIB, 3, memory_bytes=512 * MIB)


def test_what_it_takes_to_look_at_a_tests_memory_is_the_tests_time():
    assert RunningChild(1, 0, None, looking_seconds=2.0).used([]) == 2.0
