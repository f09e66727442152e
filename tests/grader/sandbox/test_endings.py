"""How a test ends: each limit with its message, crashes, and kills from outside."""

import re
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from grader.base.errors import Crashed, GraderFault, OutOfMemory, Raised, Status, TimedOut
from grader.course import courses
from grader.sandbox import endings
from grader.wire.messages import Ending
from tests.grader.in_the_sandbox import LEVELS, LIMITS, MIB, answer, ask, fault, session
from tests.grader.sampling import every

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]


def test_processor_time_has_a_limit(sandbox):
    """The kernel enforces the limit, whatever the wall clock shows."""
    expected = (
        Status.TIMEOUT,
        "it used 1 s of processor time, the limit of a test",
        "assignment/m.py in f",
    )
    assert expected == fault(sandbox, TimedOut, "def f():\n    while True: pass\n", cpu_seconds=1)


@pytest.mark.parametrize("line", ["while True: pass", "def g():\n    while True: pass\ng()"])
def test_an_import_that_does_not_end_is_told_as_that(line, sandbox):
    """No limit of a test is named first, nor a function of the module."""
    status, text, where = fault(sandbox, TimedOut, f"def f(): pass\n{line}\n", cpu_seconds=1)
    assert (status, where) == (Status.TIMEOUT, "assignment/m.py")
    assert text.startswith("importing assignment/m.py takes longer than 1 s of processor time: ")


def test_the_wait_of_an_import_is_not_that_of_a_program():
    """Python's importer runs the lines of a module; of a program, runpy does."""
    frames = '/submission/assignment/m.py", line 9 in <module>\n  File "<frozen {}>", line 2 in g'
    for importer, told in (
        ("importlib._bootstrap", ("importing assignment/m.py takes", "the import of assignment/m")),
        ("runpy", ("no answer within 40 s, the limit of", "it stopped doing anything: it sleeps")),
    ):
        found = f'  File "{frames.format(importer)}'
        late = endings.late(courses.load().limits, found, is_cut=False, on_gpu=False)
        assert str(late).startswith(told[0])
        assert str(endings.asleep(found)).startswith(told[1])


def test_a_merge_that_was_not_finished_is_named_in_a_helper_too(sandbox):
    """The parser would call it invalid syntax."""
    source = "def f():\n<<<<<<< HEAD\n    return 1\n=======\n    return 2\n>>>>>>> other\n"
    status, text, where = fault(sandbox, Raised, source)
    assert (status, where) == (Status.FAILED, "assignment/m.py:2")
    assert text.startswith("a merge was not finished: keep the lines that you want")


@pytest.mark.parametrize(
    "line", ["bytearray(2**30)", "torch.empty(2**30)", "numpy.ones(2**30)", "[0] * 2**40"]
)
def test_memory_of_a_process_has_a_limit(line, sandbox):
    """The errors of Python, torch and numpy for lack of memory give the same status."""
    source = f"import numpy, torch\ndef f():\n    return {line}\n"
    expected = (
        Status.MEMORY,
        "it asked for more than 512 MiB, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, OutOfMemory, source)


@pytest.mark.parametrize("child", ["while True: pass", "while time.process_time() < 0.3: pass"])
def test_processor_time_of_several_processes_has_the_same_limit(child, sandbox):
    """The test's own process sleeps; its children run forever or end one by one."""
    source = f"""
        import os, time
        def f():
            while True:
                if os.fork() == 0:
                    {child}
                    os._exit(0)
                {"os.wait()" if "time" in child else "time.sleep(0.1)"}
    """
    expected = "the processes that it started used 1 s of processor time, the limit of a test"
    got = fault(sandbox, TimedOut, source, cpu_seconds=1, wall_seconds=600.0)
    assert got == (Status.TIMEOUT, expected, None)


@pytest.mark.parametrize(
    "body",
    [
        "while True: os.fork() or time.sleep(100)",
        "while True: threading.Thread(target=time.sleep, args=(100,)).start()",
    ],
)
def test_the_number_of_processes_has_a_limit(body, sandbox):
    """The kernel counts threads as processes."""
    source = f"import os, threading, time\ndef f():\n    {body}\n"
    expected = (
        Status.CRASHED,
        "it started more than 8 processes, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, Crashed, source, processes=8)


def test_a_file_has_a_limit(sandbox):
    """A single file may not exceed 1 MiB."""
    source = (
        "def f():\n    with open('/tmp/a', 'wb', buffering=0) as file:\n"
        "        while True: file.write(bytes(2**19))\n"
    )
    expected = (
        Status.CRASHED,
        "it wrote more than 1 MiB of files, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, Crashed, source, file_bytes=MIB)


def test_all_files_together_have_a_limit(sandbox):
    """Files of 4 MiB each are written to a folder that holds 8 MiB."""
    source = """
        def f():
            for name in "abc":
                assert 2**22 == open("/tmp/" + name, "wb", buffering=0).write(bytes(2**22))
    """
    with (
        session(sandbox, source, file_bytes=4 * MIB) as made,
        pytest.raises((Crashed, Raised)) as caught,
    ):
        ask(made)
    assert caught.value.where == "assignment/m.py:4 in f"


def test_the_number_of_files_has_a_limit(sandbox):
    """Empty files take no bytes, but they take kernel memory."""
    source = (
        "import time\ndef f():\n    for i in range(6000):\n        open(f'/tmp/{i}', 'w').close()\n"
        "    time.sleep(100)\n"
    )
    expected = (Status.CRASHED, "it made more than 4096 files, the limit of a test", None)
    assert expected == fault(sandbox, Crashed, source)


PRINTS = """
    import os, sys
    def f():
        print("first")
        for _ in range(1000):
            {way}
        print("last")
        os._exit(1)
"""


@pytest.mark.parametrize(
    "way", ["print('x' * 999)", "os.write(1, b'x' * 1000)", "sys.stderr.write('x' * 999 + chr(10))"]
)
def test_what_is_printed_is_kept_up_to_a_limit(way, sandbox):
    """The beginning and the end are kept; the rest is read and dropped, so prints never block."""
    with session(sandbox, PRINTS.format(way=way), output_bytes=5000) as made:
        with pytest.raises(Crashed):
            ask(made)
        assert 5000 == len(made.printed)
        assert re.fullmatch(r"first\n[x\n]+last\n", made.printed)


FLOODS = """
    import ctypes, os
    def f():
        for _ in range(64):
            os.write(1, b"x" * 2**16)
            os.write(2, b"y" * 2**16)
        {line}
"""


@pytest.mark.parametrize(
    ("line", "kind", "where"),
    [
        ("ctypes.string_at(0)", Crashed, "assignment/m.py:7 in f"),
        ("while True: pass", TimedOut, "assignment/m.py in f"),
        pytest.param(
            *("while True: os.write(1, b'x' * 2**16)", TimedOut, "assignment/m.py in f"),
            marks=pytest.mark.proof,  # reading the flood takes ten seconds
        ),
    ],
)
def test_where_it_was_is_known_whatever_it_prints(line, kind, where, sandbox):
    """Python's traceback uses a separate pipe, which the test's output cannot fill."""
    assert (
        where
        == fault(
            sandbox, kind, FLOODS.format(line=line), cpu_seconds=1 if kind is TimedOut else 60
        )[2]
    )


def test_a_limit_of_one_test_is_not_the_next_ones(sandbox):
    """Each child process gets the limits of its own test."""
    source = (
        "from resource import *\ndef f():\n"
        "    return getrlimit(RLIMIT_CPU), getrlimit(RLIMIT_CORE)\n"
    )
    byte = 1 if resource.getrlimit(resource.RLIMIT_CORE)[1] else 0  # too little for a core
    assert [((7, 8), (byte, byte)), ((9, 10), (byte, byte))] == [
        answer(sandbox, source, cpu_seconds=n) for n in (7, 9)
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("os._exit(3)", "its process exited with code 3 before it answered"),
        ("os._exit(0)", "its process exited with code 0 before it answered"),
        ("os.kill(os.getpid(), 15)", "its process was ended by signal 15 (terminated)"),
        (
            "os.write(3, b'x' * 100)",
            (
                "it sent something that is not an answer: a frame claims 2021161080 + "
                "8680820740569200760 bytes; the answers of a test may take 16777216"
            ),
        ),
    ],
)
def test_an_end_without_an_answer_is_a_crash(line, text, sandbox):
    """The cases are exit codes, signals, and data written to the answer channel."""
    assert (Status.CRASHED, text) == fault(sandbox, Crashed, f"import os\ndef f():\n    {line}\n")[
        :2
    ]


STARVED = """
import sys
from pathlib import Path
from grader.course import courses
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from kit.student import call
limit, used = map(Path, sys.argv[1:3])
c = courses.load()
takes = b"import os\\ndef takes(mib): return len(bytearray(mib * 2**20))\\n"
source = takes + b"def suicide(): os.kill(os.getpid(), 9)\\n"
with Sandbox(c.tests, isolation=sys.argv[3], scratch_bytes=2**20) as sandbox:
    sandbox.wait_until_ready()
    limit.write_text(str(int(used.read_text()) + 300 * 2**20))
    calls = [("takes", 50), ("suicide",), ("takes", 1500), ("suicide",), ("takes", 50)]
    for function, *args in calls:
        session = Session(sandbox, {"assignment/m.py": source}, c.limits, seed=0, forbidden=[])
        asked = {"module": "m", "function": function, "args": tuple(args), "kwargs": {}}
        try:
            print(session.run(call, asked))
        except Exception as e:
            print(type(e).__name__, e)
        session.close()
    limit.write_text(str(2**40))
"""


@pytest.fixture
def memory_group():
    """A control group with a memory limit: its process list, its limit and its usage."""
    own = dict(
        line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines()
    )
    for parent, limit, used in [
        (
            "/sys/fs/cgroup/memory" + own.get("memory", ""),
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
        ("/sys/fs/cgroup" + own.get("", ""), "memory.max", "memory.current"),
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


@pytest.mark.parametrize("level", every(2, LEVELS))
def test_what_the_kernel_kills_for_want_of_memory_is_no_crash_of_the_students(
    memory_group, root, level
):
    """The machine has less memory than a test may use, so the kernel kills the process.

    A process that waits for such a kill, and then tries to end in the same way, cannot.
    """
    processes, *files = map(str, memory_group)
    enter = ["sh", "-c", f'echo $$ > {processes} && exec "$@"', "sh"]
    command = [*enter, sys.executable, "-c", STARVED, *files, level]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600)
    before, suicide, killed, again, after = done.stdout.splitlines() or [done.stderr] * 5
    assert [str(50 * 2**20)] * 2 == [before, after]
    refused = "Raised [Errno 1] Operation not permitted"
    assert [refused] * 2 == [suicide, again]
    assert re.match(
        r"GraderFault a test's process was killed from outside while it used [\d.]+ MiB of its 2 "
        r"GiB: ",
        killed,
    ), killed


@pytest.mark.parametrize(
    ("more", "is_isolated", "whose"),
    [(1, True, OutOfMemory), (0, True, GraderFault), (0, False, Crashed)],
)
def test_a_kill_is_the_tests_own_above_its_limit_or_without_a_filter(more, is_isolated, whose):
    ending = Ending(signal=9, memory_bytes=LIMITS.memory_bytes + more)
    assert whose is type(endings.death(ending, LIMITS, "", cpu_limit=9, is_isolated=is_isolated))


@pytest.mark.parametrize(
    ("line", "is_stub"), [("raise NotImplementedError", True), ("f(x)", False)]
)
def test_what_torch_has_not_implemented_is_no_stub(line, is_stub):
    assert is_stub is endings.is_a_stub(["NotImplementedError"], line)
