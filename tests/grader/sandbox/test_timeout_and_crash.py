"""How a test ends: each limit with its message, crashes, and kills from outside."""

import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from grader.base.errors import (
    Crashed,
    GraderFault,
    OutOfMemory,
    Raised,
    Status,
    StudentFault,
    TimedOut,
)
from grader.course import courses
from grader.sandbox import child_process, timeout_and_crash
from grader.wire.zygote_messages import Ending
from tests.grader.in_the_sandbox import LEVELS, LIMITS, MIB, answer, fault
from tests.grader.processes import ran

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]


def test_an_import_that_does_not_end_is_told_as_that(sandbox):
    """No limit of a test is named first, nor a function of the module."""
    source = "import time\ndef f():\n    while True: time.sleep(0.01)\nf()\n"
    status, text, where = fault(sandbox, TimedOut, source, wall_seconds=1.0)
    assert (status, where) == (Status.TIMEOUT, "assignment/m.py")
    assert text.startswith("importing assignment/m.py takes longer than 1 s: ")


def test_the_wait_of_an_import_is_not_that_of_a_program():
    """Python's importer runs the lines of a module; of a program, runpy does."""
    frames = '/submission/assignment/m.py", line 9 in <module>\n  File "<frozen {}>", line 2 in g'
    limits, ended = courses.load().limits, {"ending": Ending(signal=24), "is_isolated": True}
    late, used = "importing assignment/m.py takes longer than", "10 s of processor time"
    for importer, *told in (
        ("importlib._bootstrap", f"{late} 40 s", f"{late} {used}", "the import of assignment/m"),
        ("runpy", "no answer within 40 s", f"it used {used}", "it stopped doing anything"),
    ):
        found = f'  File "{frames.format(importer)}'
        faults = [
            timeout_and_crash.late(limits, found, is_cut=False),
            timeout_and_crash.death(limits=limits, tracebacks=found, cpu_limit=10, **ended),
            timeout_and_crash.asleep(found),
        ]
        assert all(str(f).startswith(words) for f, words in zip(faults, told, strict=True)), faults
    cut = timeout_and_crash.death(limits=limits, tracebacks="", cpu_limit=9, **ended)
    assert str(cut) == "it used up the processor time that was left for the tests of its problem"


def test_a_merge_that_was_not_finished_is_named_in_a_helper_too(sandbox):
    """The parser would call it invalid syntax."""
    source = "def f():\n<<<<<<< HEAD\n    return 1\n=======\n    return 2\n>>>>>>> other\n"
    status, text, where = fault(sandbox, Raised, source)
    assert (status, where) == (Status.FAILED, "assignment/m.py:2")
    assert text.startswith("a merge was not finished: keep the lines that you want")


MEMORY, LINE_3 = "it asked for more than 512 MiB", "assignment/m.py:3 in f"
PROCESSES = "it started more than 8 processes"
OF_CHILDREN = "the processes that it started used 1 s of processor time"
FORK_AND = "\n        if os.fork() == 0:\n            {}\n            os._exit(0)\n        {}"
# By what is exceeded: the status, the message, the place, the limits of the test, the body of `f`.
EXCEEDED = {
    "processor time of children that run forever": (
        Status.TIMEOUT, OF_CHILDREN, None, {"cpu_seconds": 1},
        "while True:" + FORK_AND.format("while True: pass", "time.sleep(0.1)"),
    ),
    "processor time of children one by one": (Status.TIMEOUT, OF_CHILDREN, None, {"cpu_seconds": 1},
        "while True:" + FORK_AND.format("while time.process_time() < 0.3: pass", "os.wait()")),
    "memory of Python": (Status.MEMORY, MEMORY, LINE_3, {}, "bytearray(2**30)"),
    "memory of a list": (Status.MEMORY, MEMORY, LINE_3, {}, "[0] * 2**40"),
    "memory of torch": (Status.MEMORY, MEMORY, LINE_3, {}, "torch.empty(2**30)"),
    "memory of numpy": (Status.MEMORY, MEMORY, LINE_3, {}, "numpy.ones(2**30)"),
    "processes": (Status.CRASHED, PROCESSES, LINE_3, {"processes": 8},
        "while True: os.fork() or time.sleep(100)"),
    "threads": (Status.CRASHED, PROCESSES, LINE_3, {"processes": 8},
        "while True: threading.Thread(target=time.sleep, args=(100,)).start()"),
    "a file": (Status.CRASHED, "it wrote more than 1 MiB of files", LINE_3, {"file_bytes": MIB},
        "file = open('/tmp/a', 'wb', buffering=0); file.write(bytes(2**20)); file.write(b'x')"),
    "empty files": (Status.CRASHED, "it made more than 4096 files", None, {},
        "[open(f'/tmp/{i}', 'w').close() for i in range(6000)]; time.sleep(100)"),
}  # fmt: skip


# Children one by one are in test_time_budgets, too.
@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=[pytest.mark.proof] * ("one by" in w)) for w in EXCEEDED]
)
def test_what_exceeds_a_limit_is_told(what, sandbox):
    """With the limit and, where it is known, the line. The kernel counts threads as processes."""
    status, text, where, limits, body = EXCEEDED[what]
    source = f"import numpy, os, threading, time, torch\ndef f():\n    {body}\n"
    expected = status, f"{text}, the limit of a test", where
    assert expected == fault(sandbox, StudentFault, source, wall_seconds=600.0, **limits)


def test_all_files_together_have_a_limit(sandbox):
    """Files of 4 MiB each are written to a folder that holds 8 MiB."""
    source = """
        def f():
            for name in "abc":
                assert 2**22 == open("/tmp/" + name, "wb", buffering=0).write(bytes(2**22))
    """
    assert fault(sandbox, StudentFault, source, file_bytes=4 * MIB)[2] == "assignment/m.py:4 in f"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_end_of_tracebacks_is_kept_however_small_the_pieces_are(size, monkeypatch):
    monkeypatch.setattr(child_process, "MAX_TRACEBACKS", 8)
    written, tracebacks = "".join(map(str, range(60))), child_process.Tracebacks()
    for start in range(0, len(written), size):
        os.write(tracebacks.writing_end, written[start : start + size].encode())
        assert tracebacks.read()
    assert written[-8:] == tracebacks.text
    os.close(tracebacks.writing_end)
    assert not tracebacks.read()
    tracebacks.close()


def test_a_crash_has_its_line_whatever_is_printed(sandbox):
    source = "import ctypes\ndef f():\n    print('x' * 2**24)\n    ctypes.string_at(0)\n"
    assert fault(sandbox, Crashed, source)[2] == "assignment/m.py:4 in f"


def test_a_limit_of_one_test_is_not_the_next_ones(sandbox):
    source = "from resource import *\ndef f(): return getrlimit(RLIMIT_CPU), getrlimit(RLIMIT_CORE)"
    byte = 1 if resource.getrlimit(resource.RLIMIT_CORE)[1] else 0  # too little for a core
    for n in (7, 9):
        assert ((n, n + 1), (byte, byte)) == answer(sandbox, source, cpu_seconds=n)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("os._exit(3)", "its process exited with code 3 before it answered"),
        ("os._exit(0)", "its process exited with code 0 before it answered"),
        ("os.kill(os.getpid(), 15)", "its process was ended by signal 15 (terminated)"),
        ("os.write(3, b'x' * 100)", "it sent something that is not an answer: a frame claims 2021"),
    ],
)
def test_an_end_without_an_answer_is_a_crash(line, text, sandbox):
    told = fault(sandbox, Crashed, f"import os\ndef f():\n    {line}\n")
    assert told[0] is Status.CRASHED
    assert told[1].startswith(text)


STARVED = """
import sys
from pathlib import Path
from tests.grader.in_the_sandbox import answer, plain_box
limit, used = map(Path, sys.argv[1:3])
source = "import os\\ndef f(mib):\\n"
source += "    return len(bytearray(mib * 2**20)) if mib else os.kill(os.getpid(), 9)"
with plain_box(sys.argv[3]) as sandbox:
    sandbox.wait_until_ready()
    limit.write_text(str(int(used.read_text()) + 300 * 2**20))
    for mib in (50, 0, 1500, 0, 50):
        try:
            print(answer(sandbox, source, mib, memory_bytes=2**31))
        except Exception as e:
            print(type(e).__name__, e)
    limit.write_text(str(2**40))
"""


@pytest.fixture
def memory_group():
    """A control group with a memory limit: its process list, its limit and its usage."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = dict(line.split(":", 2)[1:] for line in lines)
    old, new = "/sys/fs/cgroup/memory" + own.get("memory", ""), "/sys/fs/cgroup" + own.get("", "")
    for parent, limit, used in [
        (old, "memory.limit_in_bytes", "memory.usage_in_bytes"),
        (new, "memory.max", "memory.current"),
    ]:
        group = Path(parent, "grader-test")
        with suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                yield [group / name for name in ("cgroup.procs", limit, used)]
                group.rmdir()
                return
            group.rmdir()
    pytest.skip("this machine cannot create a control group for memory")


@pytest.mark.proof
@pytest.mark.parametrize("level", LEVELS)
def test_what_the_kernel_kills_for_want_of_memory_is_no_crash_of_the_students(
    memory_group, root, level
):
    """The machine has less memory than a test may use, and no test can imitate such a kill."""
    processes, *files = map(str, memory_group)
    enter = ["sh", "-c", f'echo $$ > {processes} && exec "$@"', "sh"]
    command = [*enter, sys.executable, "-c", STARVED, *files, level]
    done = ran(command, cwd=root)
    before, suicide, killed, again, after = done.stdout.splitlines() or [done.stderr] * 5
    assert [str(50 * 2**20)] * 2 == [before, after]
    refused = "Raised [Errno 1] Operation not permitted"
    assert [refused] * 2 == [suicide, again]
    told = "GraderFault a test's process was killed from outside while it used"
    assert re.match(rf"{told} [\d.]+ MiB of its 2 GiB: ", killed), killed


@pytest.mark.parametrize(
    ("more", "is_isolated", "whose"),
    [(1, True, OutOfMemory), (0, True, GraderFault), (0, False, Crashed)],
)
def test_a_kill_is_the_tests_own_above_its_limit_or_without_a_filter(more, is_isolated, whose):
    ending = Ending(signal=9, memory_bytes=LIMITS.memory_bytes + more)
    assert whose is type(
        timeout_and_crash.death(ending, LIMITS, "", cpu_limit=9, is_isolated=is_isolated)
    )
