"""The sandbox, for real: every limit and what it says, what a submission can see and do, and that nothing stays behind."""

import errno
import os
import platform
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from grader import course as courses
from grader.errors import (
    Crashed,
    GraderFault,
    NotAttempted,
    OutOfMemory,
    PolicyBroken,
    Raised,
    SandboxUnavailable,
    Status,
    TimedOut,
)
from grader.grading.budget import Budgets
from grader.grading.grade import grade
from grader.protocol import Other
from grader.report import json as json_report
from grader.sandbox import bubblewrap, seccomp
from grader.sandbox.box import Sandbox
from grader.sandbox.preflight import check_cpu
from grader.sandbox.session import Budget, Session
from grader.submission import Submission
from tests.grader.told import told
from tests.probes import call, call_and_keep_inputs

pytestmark = pytest.mark.xdist_group("sandbox")  # one warm sandbox serves this file

COURSE = courses.load()
MIB = 2**20
LIMITS = msgspec.structs.replace(
    COURSE.limits, wall_seconds=120.0, cpu_seconds=60, memory_bytes=512 * MIB
)


@pytest.fixture(scope="module")
def sandbox():
    """A sandbox with 8 MiB to write in."""
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=8 * MIB) as running:
        yield running


@contextmanager
def session(sandbox, source, *, seed=0, forbidden=(), budget=None, **limits):
    """One test's session with a student's module assignment/m.py."""
    sources = {"assignment/m.py": textwrap.dedent(source).encode()}
    limited = msgspec.structs.replace(LIMITS, **limits)
    made = Session(sandbox, sources, limited, seed=seed, forbidden=list(forbidden), budget=budget)
    try:
        yield made
    finally:
        made.close()


def ask(made, *args, function="f"):
    """What a function of that module returns."""
    return made.run(call, {"module": "m", "function": function, "args": args, "kwargs": {}})


def answer(sandbox, source, *args, **options):
    """What f of a student's module returns, in a session of its own."""
    with session(sandbox, source, **options) as made:
        return ask(made, *args)


def fault(sandbox, kind, source, *args, **options):
    """The fault that calling f ends in, as (status, text, where)."""
    with session(sandbox, source, **options) as made, pytest.raises(kind) as caught:
        ask(made, *args)
    assert kind is type(caught.value) or kind is Raised
    return caught.value.status, str(caught.value), caught.value.where


# --- answers ------------------------------------------------------------------------------------------------------------


def test_a_call_returns_plain_data_and_tensors(sandbox):
    """Arguments go in with their strides and storages, answers come out as real tensors."""
    x = torch.arange(12.0).view(3, 4).T
    source = """
        def f(x, y):
            return x.stride(), x.untyped_storage()._cdata == y.untyped_storage()._cdata, x.sum(0), object(), [(1, "a")]
    """
    stride, shares, total, other, rest = answer(sandbox, source, x, x[1:])
    assert ((1, 4), True, [6.0, 22.0, 38.0], Other("object"), [(1, "a")]) == (
        stride,
        shares,
        total.tolist(),
        other,
        rest,
    )


@pytest.mark.parametrize(
    ("inputs", "where"),
    [
        ((np.int64(3),), r"\['inputs'\]\['args'\]\[0\] is numpy.int64"),
        (({"a": {1}},), r".*\['a'\] is set"),
    ],
)
def test_a_test_that_sends_what_is_no_plain_data_is_a_fault_of_ours(inputs, where, sandbox):
    """It would arrive as something else, and the student's code would fail on it; the session can still be used."""
    with session(sandbox, "def f(x):\n    return x\n") as made:
        with pytest.raises(GraderFault, match=rf"^a test's request cannot be sent: {where}$"):
            ask(made, *inputs)
        assert ask(made, 5) == 5


def test_a_value_that_cannot_be_looked_at_is_the_students(sandbox):
    """Whatever it raises then; one of a related type is what it stands for."""
    source = """
        import collections.abc, numpy
        class Exits(collections.abc.Mapping):
            def __iter__(self):
                raise SystemExit(3)
            __getitem__ = __len__ = None
        def f(x):
            return Exits() if x else numpy.float32(0.5)
    """
    assert (
        fault(sandbox, Crashed, source, True)[1] == "what it returned cannot be sent: SystemExit: 3"
    )
    assert answer(sandbox, source, False) == 0.5


def test_inputs_here_are_out_of_reach(sandbox):
    """What a student writes to is a copy; a probe can bring back how they left it."""
    x = torch.zeros(3)
    with session(sandbox, "def f(x):\n    x += 1\n") as made:
        got = made.run(call_and_keep_inputs, {"module": "m", "function": "f", "args": (x,)})
    assert ([0.0] * 3, [1.0] * 3) == (x.tolist(), got["inputs"][0].tolist())


def test_state_of_a_module_lasts_for_one_session(sandbox):
    """Calls of one test share a process, two tests do not."""
    source = "calls = []\ndef f():\n    calls.append(1)\n    return len(calls)\n"
    with session(sandbox, source) as made:
        assert [1, 2] == [ask(made), ask(made)]
    assert answer(sandbox, source) == 1


def test_the_global_generators_are_seeded_before_each_call(sandbox):
    """random, numpy and torch: the same numbers at every call with one seed, others with another."""
    source = """
        import random, numpy, torch
        def f():
            return random.random(), float(numpy.random.rand()), torch.rand(3)
    """
    with session(sandbox, source, seed=5) as made:
        first, second = ask(made), ask(made)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(5)).tolist()
    for got in (first, second):
        assert (random.Random(5).random(), np.random.RandomState(5).rand(), expected) == (
            *got[:2],
            got[2].tolist(),
        )
    assert expected != answer(sandbox, source, seed=6)[2].tolist()


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
            empty(50), empty(5, 10).T, torch.empty_like(x), torch.empty_like(x.double()), x.new_empty(50), inferred,
            torch.Tensor(2, 3), torch.FloatTensor(50), x.new(50), torch.empty_strided((2, 3), (1, 2)),
            torch.zeros(0).resize_(50), torch.empty_permuted((2, 3), (1, 0)), torch.nn.Parameter(empty(50)),
            torch.zeros(0).resize_as_(x), torch.nn.utils.skip_init(torch.nn.Linear, 5, 5).weight,
            torch.nn.Linear(5, 5, device="meta").to_empty(device="cpu").bias,
            empty(50, dtype=torch.bfloat16), empty(50, dtype=torch.float8_e4m3fn).float(),
        ]
        integers = [empty(50, dtype=d) for d in (torch.int64, torch.int32, torch.uint8)]
        return [bool(m.isnan().all()) for m in made], [[int(i.min()), int(i.max())] for i in integers], empty(3)._version
"""


def test_memory_that_was_never_written_reads_as_nan(sandbox):
    """Or as the largest integer, by every way to get some: so what is forgotten to be set is wrong in every run alike."""
    nan, integers, version = answer(sandbox, UNINITIALISED)
    assert [True] * 18 == nan
    assert [[n, n] for n in (2**63 - 1, 2**31 - 1, 255)] == integers
    assert version == 0


def test_filling_memory_refuses_no_operation_and_warns_of_none(sandbox):
    """torch has no deterministic put_ and would warn of that."""
    source = "import torch\ndef f():\n    return torch.zeros(3).put_(torch.tensor([0, 2]), torch.ones(2))\n"
    with session(sandbox, source) as made:
        assert [1.0, 0.0, 1.0] == ask(made).tolist()
        made.close()
        assert made.printed == ""


@pytest.mark.slow
def test_a_weight_that_was_never_set_fails_the_same_tests_in_every_run(sandbox):
    """By three seeds, twice each: the same tests, with the same text."""
    honest = (COURSE.reference / "linear.py").read_text()
    forgetful = honest.replace(
        "nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)", "weight"
    )
    assert forgetful != honest
    submission = Submission("forgetful", {"assignment/linear.py": forgetful.encode()}, [])
    before = {}
    for seed in (0, 1, 2) * 2:
        result = grade(submission, COURSE, sandbox, problems=[COURSE.problem("linear")], seed=seed)
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
    assert failed[0] == failed[1] == failed[2]
    assert words[0] == words[1] == words[2], "but for the sizes that a seed draws"


# --- limits -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wall_time_has_a_limit(sandbox):
    """Sleeping costs no processor time, and is ended all the same, with the function that it was in."""
    source = "import time\ndef g():\n    pass\n\n\ndef f():\n    time.sleep(1000)\n"
    with session(sandbox, source, wall_seconds=4.0) as made:
        ask(made, function="g")
        with pytest.raises(TimedOut) as caught:
            ask(made)
    assert (Status.TIMEOUT, "no answer within 4 s, the limit of a test") == (
        caught.value.status,
        str(caught.value),
    )
    assert caught.value.where == "assignment/m.py in f"


def test_the_calls_of_a_test_share_its_time(sandbox):
    """A test cannot take its limit twice; and once it is used up, no call of it runs any more."""
    with session(sandbox, "def f(x):\n    while x: pass\n", wall_seconds=1.0) as made:
        for _ in range(2):
            with pytest.raises(TimedOut, match=r"^no answer within 1 s, the limit of a test$"):
                ask(made, True)
        with pytest.raises(TimedOut):
            ask(made, False)


SLOW = "import time\ndef f(seconds):\n    time.sleep(seconds)\ndef busy():\n    while True: pass\n"


def test_only_the_students_calls_are_charged(sandbox, monkeypatch):
    """Neither our waiting for a sandbox, nor its start, nor what the test itself does between two calls."""
    ready, spawn = Sandbox.wait_until_ready, Sandbox.spawn
    monkeypatch.setattr(Sandbox, "wait_until_ready", lambda self: (time.sleep(0.7), ready(self)))
    monkeypatch.setattr(
        Sandbox, "spawn", lambda self, *given: (time.sleep(0.7), spawn(self, *given))
    )
    budget = Budget(cpu_seconds=5.0, wall_seconds=5.0)
    with session(sandbox, SLOW, budget=budget, wall_seconds=2.0) as made:
        for _ in range(3):
            ask(made, 0.1)
            time.sleep(0.7)  # an oracle
    sandbox.wait_until_ready()
    assert 0.3 <= budget.wall_used < 1.0
    assert budget.cpu_used < 1.0


@pytest.mark.slow
def test_a_slow_start_of_every_test_costs_no_point(sandbox, monkeypatch):
    """A right solution with two seconds for a problem, on a machine that takes longer than that to start its tests."""
    ready = Sandbox.wait_until_ready
    monkeypatch.setattr(Sandbox, "wait_until_ready", lambda self: (time.sleep(0.5), ready(self)))
    problem = COURSE.problem("lr_schedule")
    limits = msgspec.structs.replace(
        COURSE.limits, submission_seconds=120.0
    )  # of 120 points, of which this problem has 2
    source = (COURSE.reference / f"{problem.module}.py").read_bytes()
    course = msgspec.structs.replace(COURSE, limits=limits)
    result = grade(
        Submission("right", {problem.path: source}, []), course, sandbox, problems=[problem]
    )
    assert result.score == result.max_score == 2, [
        t.message for t in result.problems[0].tests if t.message
    ]


@pytest.mark.slow
def test_eight_graders_at_once_cost_nobody_a_point(right, tmp_path):
    """More than this machine has processors for, very likely: each of them gives full marks."""
    command = [
        sys.executable,
        "-m",
        "grader",
        "grade",
        str(right),
        "--only",
        "lr_schedule",
        "--only",
        "linear",
    ]
    files = [tmp_path / f"{i}.json" for i in range(8)]
    running = [
        subprocess.Popen([*command, "--json", file], cwd=COURSE.root, stdout=subprocess.DEVNULL)
        for file in files
    ]
    assert [0] * 8 == [process.wait(600) for process in running]
    results = [json_report.parse(file.read_text()) for file in files]
    assert {7.0} == {result.score for result in results} == {result.max_score for result in results}


def test_the_time_of_a_problem_does_not_depend_on_what_else_is_graded():
    """It is a share by the course's points; what is graded is not asked. It is the same budget whenever it is asked for."""
    problem, budgets = COURSE.problem("lr_schedule"), Budgets(COURSE, "cpu")
    budget = budgets.of(problem)
    assert (720 * 2 / 120, 4 * 720 * 2 / 120) == (budget.cpu_seconds, budget.wall_seconds)
    assert budget is budgets.of(problem) is not budgets.of(COURSE.problem("linear"))


def test_tests_share_what_their_problem_has_of_the_processor(sandbox):
    """A test is cut to what is left, the next one does not begin; one that sleeps has used nothing of it."""
    budget = Budget(cpu_seconds=1.5, wall_seconds=100.0)
    with session(sandbox, SLOW, budget=budget) as made:
        ask(made, 1.0)
    with session(sandbox, SLOW, budget=budget, cpu_seconds=1) as made:
        with pytest.raises(TimedOut, match=r"^it used 1 s of processor time, the limit of a test$"):
            ask(made, function="busy")
        with pytest.raises(TimedOut, match=r"^it used 1 s of processor time, the limit of a test$"):
            ask(made, 0.0)
    with (
        session(sandbox, SLOW, budget=budget) as made,
        pytest.raises(
            TimedOut,
            match=r"^it used all that was left of the processor time for the tests of its problem$",
        ),
    ):
        ask(made, function="busy")
    with (
        session(sandbox, SLOW, budget=budget) as made,
        pytest.raises(
            TimedOut, match=r"^its tests had used their 2 s of processor time before this one$"
        ),
    ):
        ask(made, 0.0)


def test_tests_share_what_their_problem_has_by_the_clock(sandbox):
    """Code that sleeps for ever in every test does not hold up a grade for hours."""
    budget = Budget(cpu_seconds=100.0, wall_seconds=1.0)
    with (
        session(sandbox, SLOW, budget=budget) as made,
        pytest.raises(
            TimedOut, match=r"^no answer before the time for all tests of its problem was used up$"
        ),
    ):
        ask(made, 100.0)
    with (
        session(sandbox, SLOW, budget=budget) as made,
        pytest.raises(TimedOut, match=r"^its tests had used their 1 s before"),
    ):
        ask(made, 0.0)


def test_processes_that_it_starts_are_charged_as_well(sandbox):
    """Also those that nobody waits for."""
    source = """
        import os, time
        def f():
            reading, writing = os.pipe()
            for _ in range(2):
                if os.fork() == 0:
                    while time.process_time() < 0.5: pass
                    os.write(writing, b".")
                    os._exit(0)
            os.read(reading, 1), os.read(reading, 1)
    """
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0)
    with session(sandbox, source, budget=budget) as made:
        ask(made)
    sandbox.wait_until_ready()
    assert 1.0 <= budget.cpu_used < 2.5


def test_a_session_works_with_a_thousand_files_open(sandbox):
    """select cannot wait for a descriptor above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"no more than {hard} files may be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert answer(sandbox, "def f():\n    print(1)\n    return 1\n") == 1
        assert (
            "exited with code 3"
            in fault(sandbox, Crashed, "import os\ndef f():\n    os._exit(3)\n")[1]
        )
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_sandbox_that_cannot_be_waited_for_is_a_fault_of_ours(sandbox, monkeypatch):
    """Of whatever type: a test that expects an OSError must not take it for the student's."""
    monkeypatch.setattr(Sandbox, "wait_until_ready", lambda self: os.close(-1))
    made = Session(sandbox, {}, LIMITS, seed=0, forbidden=[])
    with pytest.raises(GraderFault, match=r"^asking the sandbox failed: OSError: "):
        ask(made)


def test_processor_time_has_a_limit(sandbox):
    """By the kernel, whatever the wall clock says."""
    expected = (
        Status.TIMEOUT,
        "it used 1 s of processor time, the limit of a test",
        "assignment/m.py in f",
    )
    assert expected == fault(sandbox, TimedOut, "def f():\n    while True: pass\n", cpu_seconds=1)


@pytest.mark.parametrize(
    "line", ["bytearray(2**30)", "torch.empty(2**30)", "numpy.ones(2**30)", "[0] * 2**40"]
)
def test_memory_of_a_process_has_a_limit(line, sandbox):
    """Python's, torch's and numpy's way of saying so are one."""
    source = f"import numpy, torch\ndef f():\n    return {line}\n"
    expected = (
        Status.MEMORY,
        "it asked for more than 512 MiB, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, OutOfMemory, source)


def test_memory_of_several_processes_has_the_same_limit(sandbox):
    """None of these takes more than a third of what is allowed; all of them together do."""
    source = """
        import os, time
        def f():
            for _ in range(8):
                if os.fork() == 0:
                    kept = b"x" * (60 * 2**20)
                    time.sleep(100)
            time.sleep(100)
    """
    expected = (Status.MEMORY, "its processes together took more than 192 MiB", None)
    assert expected == fault(sandbox, OutOfMemory, source, memory_bytes=192 * MIB)


@pytest.mark.parametrize(
    "body",
    [
        "while True: os.fork() or time.sleep(100)",
        "while True: threading.Thread(target=time.sleep, args=(100,)).start()",
    ],
)
def test_the_number_of_processes_has_a_limit(body, sandbox):
    """Threads are processes to the kernel."""
    source = f"import os, threading, time\ndef f():\n    {body}\n"
    expected = (
        Status.CRASHED,
        "it started more than 8 processes, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, Crashed, source, processes=8)


def test_a_file_has_a_limit(sandbox):
    """One file of more than 1 MiB."""
    source = "def f():\n    with open('/tmp/a', 'wb', buffering=0) as file:\n        while True: file.write(bytes(2**19))\n"
    expected = (
        Status.CRASHED,
        "it wrote more than 1 MiB of files, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, Crashed, source, file_bytes=MIB)


def test_all_files_together_have_a_limit(sandbox):
    """Each of 4 MiB in a folder that holds 8."""
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
    """Empty ones take no bytes, but the kernel's memory."""
    source = "import time\ndef f():\n    for i in range(6000):\n        open(f'/tmp/{i}', 'w').close()\n    time.sleep(100)\n"
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
    """The beginning and the end; the rest is read and dropped, so that printing never blocks."""
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
        ("while True: os.write(1, b'x' * 2**16)", TimedOut, "assignment/m.py in f"),
    ],
)
def test_where_it_was_is_known_whatever_it_prints(line, kind, where, sandbox):
    """Python's traceback has a pipe of its own, which nothing that is printed before or after it can fill."""
    assert (
        where
        == fault(
            sandbox, kind, FLOODS.format(line=line), cpu_seconds=1 if kind is TimedOut else 60
        )[2]
    )


def test_a_limit_of_one_test_is_not_the_next_ones(sandbox):
    """Each child gets its own."""
    source = "from resource import *\ndef f():\n    return getrlimit(RLIMIT_CPU), getrlimit(RLIMIT_CORE)\n"
    assert [((7, 8), (0, 0)), ((9, 10), (0, 0))] == [
        answer(sandbox, source, cpu_seconds=n) for n in (7, 9)
    ]


# --- ends ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("milliseconds", [0, 2, 4, 6, 8, 10, 12, 14])
def test_a_bubblewrap_that_is_killed_while_it_starts_leaves_nobody(milliseconds):
    """It makes its child before the child watches it: one that was left there waited for ever."""
    box = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=COURSE.limits.file_bytes)
    pid = box._process.pid
    time.sleep(milliseconds / 1000)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.01)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    box.close()
    deadline = time.monotonic() + 20
    while (
        left := [child for child in children if is_alive(child)]
    ) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left


def is_alive(pid):
    """Whether there is such a process that has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("os._exit(3)", "its process exited with code 3 before it answered"),
        ("os._exit(0)", "its process exited with code 0 before it answered"),
        ("os.kill(os.getpid(), 9)", "its process was ended by signal 9 (killed)"),
        (
            "os.write(3, b'x' * 100)",
            "it answered with something that is no answer: a frame claims 2021161080 + 8680820740569200760 bytes",
        ),
    ],
)
def test_an_end_without_an_answer_is_a_crash(line, text, sandbox):
    """Exit codes, signals, and a channel that was written to."""
    assert (Status.CRASHED, text) == fault(sandbox, Crashed, f"import os\ndef f():\n    {line}\n")[
        :2
    ]


def test_an_exit_at_import_is_a_crash_of_that_test(sandbox):
    """The next one finds a sandbox."""
    assert (
        "its process exited with code 7 before it answered"
        == fault(sandbox, Crashed, "import os\nos._exit(7)\n")[1]
    )
    assert answer(sandbox, "def f():\n    return 1\n") == 1


def test_a_session_goes_on_after_a_crash(sandbox):
    """With a fresh process, in which nothing of the first is left."""
    source = "import os\nseen = []\ndef f(x):\n    seen.append(x)\n    return seen if x else os._exit(1)\n"
    with session(sandbox, source) as made:
        assert [1] == ask(made, 1)
        with pytest.raises(Crashed):
            ask(made, 0)
        assert [2] == ask(made, 2)


def test_a_stub_is_not_attempted(sandbox):
    """Raised by a line of theirs."""
    source = "def f():\n    raise NotImplementedError('linear: see handout')\n"
    expected = (Status.NOT_ATTEMPTED, "linear: see handout", "assignment/m.py:2 in f")
    assert expected == fault(sandbox, NotAttempted, source)


def test_a_not_implemented_error_of_torchs_own_is_an_error(sandbox):
    """Somebody did attempt that."""
    with (
        session(sandbox, "from torch import nn\ndef f():\n    return nn.Module()(1)\n") as made,
        pytest.raises(RuntimeError) as caught,
    ):
        ask(made)
    assert (Status.FAILED, "NotImplementedError", "assignment/m.py:3 in f") == (
        caught.value.status,
        caught.value.type_name,
        caught.value.where,
    )
    assert not isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(
    ("line", "kind", "name", "text"),
    [
        ("raise ValueError('no')", ValueError, "ValueError", "no"),
        ("raise Mine('no')", ValueError, "Mine", "no"),
        ("{}['a']", KeyError, "KeyError", "'a'"),
        ("[][1]", IndexError, "IndexError", "list index out of range"),
        ("1 / 0", ZeroDivisionError, "ZeroDivisionError", "division by zero"),
        ("b'\\xff'.decode()", ValueError, "UnicodeDecodeError", None),
        ("open('/none')", FileNotFoundError, "FileNotFoundError", "[Errno 2] No such file or directory: '/none'"),
        ("import nothing", ImportError, "ModuleNotFoundError", "No module named 'nothing'"),
        ("None.x", AttributeError, "AttributeError", "'NoneType' object has no attribute 'x'"),
        ("len(1)", TypeError, "TypeError", "object of type 'int' has no len()"),
        ("assert False, 'no'", AssertionError, "AssertionError", "no"),
        ("torch.zeros(2) @ torch.zeros(3)", RuntimeError, "RuntimeError", None),
        ("f()", RuntimeError, "RecursionError", None),
        ("raise StopIteration", Raised, "StopIteration", ""),
        ("raise SystemExit(0)", Raised, "SystemExit", "0"),
        ("raise KeyboardInterrupt", Raised, "KeyboardInterrupt", ""),
        ("raise Silent", Raised, "Silent", "(its text cannot be read: ZeroDivisionError)"),
        ("raise ValueError('x' * 9999)", ValueError, "ValueError", "x" * 2000),
    ],
)  # fmt: skip
def test_an_exception_arrives_as_the_builtin_type_that_it_was(line, kind, name, text, sandbox):
    """So that a test can expect it; with the name of its own type, its text and its place."""
    source = f"""
import torch
class Mine(ValueError): pass
class Silent(Exception):
    def __str__(self): return 1 / 0
def f():
    {line}
"""
    with session(sandbox, source) as made, pytest.raises(kind) as caught:
        ask(made)
    assert isinstance(caught.value, Raised)
    assert (name, "assignment/m.py:7 in f") == (caught.value.type_name, caught.value.where)
    assert text is None or text == str(caught.value)


def test_a_syntax_error_has_its_place(sandbox):
    """Although no frame of the student's was ever run."""
    assert (Status.FAILED, "assignment/m.py:2") == fault(sandbox, Raised, "x = 1\ndef f(:\n")[::2]


def test_a_forbidden_call_is_policy(sandbox):
    """By whatever name it was reached, and also where the student swallows what it raises."""
    source = """
        import torch
        def f():
            try:
                getattr(torch.nn, "Lin" + "ear")(2, 3)
            except BaseException:
                pass
            return 1
    """
    expected = (Status.POLICY, "calls torch.nn.Linear", "assignment/m.py:5 in f")
    assert expected == fault(sandbox, PolicyBroken, source, forbidden=["torch.nn.Linear"])
    assert answer(sandbox, source) == 1


# --- nothing stays ------------------------------------------------------------------------------------------------------

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
LOOK = "import os\ndef f():\n    return sorted(os.listdir('/tmp')), len([p for p in os.listdir('/proc') if p.isdigit()])\n"


def test_nothing_of_a_test_reaches_the_next(sandbox):
    """Files, links, pipes and daemons are gone: the next test sees its own sources, the zygote and itself."""
    before = sandbox.host_pid
    for _ in range(2):
        assert (answer(sandbox, LITTER), (["submission"], 2)) == (1, answer(sandbox, LOOK))
    assert before == sandbox.host_pid


def test_a_test_that_was_ended_leaves_nothing_either(sandbox):
    """Killed in the middle of what it did."""
    source = LITTER.replace("return 1", "while True: pass")
    assert Status.TIMEOUT is fault(sandbox, TimedOut, source, wall_seconds=1.5)[0]
    assert (["submission"], 2) == answer(sandbox, LOOK)


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


@pytest.mark.parametrize("way", ["closed", "deep", "many", "named"])
def test_whatever_a_test_leaves_is_removed_by_the_same_zygote(way, sandbox):
    """Folders without permissions, deeper than a path may be long, thousands of them, of odd names: nothing costs a restart."""
    before = sandbox.host_pid
    for _ in range(3):
        with session(sandbox, RESISTS) as made, suppress(Crashed):  # of too many files
            ask(made, function=way)
        assert (["submission"], 2) == answer(sandbox, LOOK)
    assert before == sandbox.host_pid


@pytest.mark.slow
def test_a_zygote_that_dies_is_a_fault_of_ours_and_is_replaced():
    """It never costs a student anything; and closing a sandbox leaves no process."""
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB) as own:
        os.kill(own.host_pid, 9)
        made = Session(own, {"assignment/m.py": b"def f(): return 1"}, LIMITS, seed=0, forbidden=[])
        with pytest.raises(GraderFault, match=r"^the sandbox "):
            ask(made)
        with suppress(GraderFault):
            made.close()
        assert answer(own, "def f(): return 1") == 1
        last = own.host_pid
    assert not Path(f"/proc/{last}").exists()


# --- limits of whoever starts the grader -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """A folder to hand in, of which every solution is right."""
    folder = tmp_path_factory.mktemp("right") / "assignment"
    folder.mkdir()
    for module in COURSE.modules:
        shutil.copy(COURSE.reference / f"{module}.py", folder)
    return folder.parent


def graded_in_a_shell(first, submission, *options, **environment):
    """`grader grade --only napkin_math` of a submission, in a shell that does something else first."""
    command = [
        sys.executable,
        "-m",
        "grader",
        "grade",
        str(submission),
        "--only",
        "napkin_math",
        *map(str, options),
    ]
    shell = ["bash", "-c", f'{first} && exec "$@"', "bash", *command]
    return subprocess.run(
        shell,
        cwd=COURSE.root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


LOW = {
    "-n 100": "the limit on open files (ulimit -n) is 100 here, and grading needs 256",
    "-t 9": "the limit on processor time (ulimit -t) is 9 s here, and grading needs 120 s",
    "-u 20": "the limit on processes (ulimit -u) is 20 here, and grading needs 64",
    "-f 1000": "the limit on the size of files (ulimit -f) is 1000 KiB here, and grading needs 65536 KiB",
    "-v 1000000": "the limit on address space (ulimit -v) is 1000000 KiB here, and grading needs 4194304 KiB",
    "-d 100000": "the limit on data in memory (ulimit -d) is 100000 KiB here, and grading needs 4194304 KiB",
    "-s 1000": "the limit on stacks (ulimit -s) is 1000 KiB here, and grading needs 8192 KiB",
}


@pytest.mark.slow
@pytest.mark.parametrize("limit", LOW)
def test_a_limit_that_is_too_low_is_named_before_anything_is_graded(limit, right, tmp_path):
    """One sentence, exit 3, and no result: nobody loses a point by a scheduler's settings."""
    done = graded_in_a_shell(f"ulimit {limit}", right, "--json", tmp_path / "result.json")
    ours = "grader: this is a fault of the grader or of this machine: "
    further = ": start the grader from a shell or job whose hard limit is as high\n"
    assert (3, "", ours + LOW[limit] + further) == (done.returncode, done.stdout, done.stderr)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", ["-n 512 -u 64", "-Sn 20 -Su 20 -Sf 1000 -St 60 -Sv 4000000 -Sd 4000000"]
)
def test_a_limit_that_is_enough_or_can_be_raised_costs_nothing(limits, right, tmp_path):
    """Full marks: a test's process needs few descriptors, and a soft limit is raised."""
    flags = "; ulimit ".join(re.findall(r"-\w+ \d+", limits))
    done = graded_in_a_shell(f"ulimit {flags}", right, "--json", tmp_path / "result.json")
    assert (0, "") == (done.returncode, done.stderr)
    result = json_report.parse((tmp_path / "result.json").read_text())
    assert result.score == result.max_score > 0


@pytest.mark.slow
def test_a_limit_that_only_a_test_meets_is_ours(bare_with):
    """It is lower than the course lets a test use: the look before the first test says so, and so would any test."""
    source = "def f():\n    return 1\n"
    with bare_with("import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (2**30, 2**30))") as limited:
        said = rf"before it ran any code of the student's: `ulimit -f` .* is too low: {2**30}, and a test needs {2**40}$"
        with pytest.raises(GraderFault, match=said):
            check_cpu(limited, msgspec.structs.replace(LIMITS, file_bytes=2**40))
        with pytest.raises(GraderFault, match=said):
            answer(limited, source, file_bytes=2**40)
        assert answer(limited, source, file_bytes=2**20) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        "child._limit = lambda limits: 1 / 0",
        "child._redirect = lambda *descriptors: 1 / 0",
        "child._Test.__init__ = lambda *_: 1 / 0",
        "child._limit = lambda limits: os.kill(os.getpid(), 9)",
        "child._limit = lambda limits: os.write(3, b'x' * 100)",
    ],
)
def test_an_end_before_the_students_code_is_ours(broken, bare_with):
    """Whatever it was: an exception, an exit, a signal, an answer that is none."""
    with bare_with(broken) as running:
        made = Session(
            running, {"assignment/m.py": b"def f(): return 1"}, LIMITS, seed=0, forbidden=[]
        )
        try:
            with pytest.raises(
                GraderFault,
                match=r"^a test's process (ended \(.*\) before it ran any code of the student's: |answered)",
            ):
                ask(made)
        finally:
            made.close()


@pytest.fixture
def bare_with(monkeypatch, tmp_path):
    """A worker, locked up nowhere, of which a line of Python has changed something."""

    @contextmanager
    def start(line):
        boot = Path(bubblewrap.__file__).parent.parent / "worker" / "boot.py"
        changed = tmp_path / "boot.py"
        text = boot.read_text().replace(
            "    zygote.import_slow",
            f"    from grader.worker import child\n    {line}\n    zygote.import_slow",
        )
        assert line in text
        changed.write_text(text)
        real = subprocess.Popen

        def popen(command, **options):
            return real(
                [str(changed) if word == str(boot) else word for word in command], **options
            )

        monkeypatch.setattr(subprocess, "Popen", popen)
        with Sandbox(COURSE.tests, isolation="none", scratch_bytes=MIB) as running:
            yield running

    return start


@pytest.mark.slow
def test_a_run_leaves_nothing_in_the_temporary_folder(right, tmp_path):
    """Neither a folder of the sandbox nor one of torch's for compiled code."""
    done = graded_in_a_shell("true", right, TMPDIR=str(tmp_path))
    assert (0, []) == (done.returncode, list(tmp_path.iterdir()))


# --- killed from outside ------------------------------------------------------------------------------------------------

STARVED = """
import sys
from pathlib import Path
from grader import course
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from tests.probes import call
limit, used = map(Path, sys.argv[1:])
c = course.load()
source = b"import os\\ndef takes(mib): return len(bytearray(mib * 2**20))\\ndef suicide(): os.kill(os.getpid(), 9)\\n"
with Sandbox(c.tests, isolation="bubblewrap", scratch_bytes=2**20) as sandbox:
    sandbox.wait_until_ready()
    limit.write_text(str(int(used.read_text()) + 300 * 2**20))
    for function, *args in [("takes", 50), ("suicide",), ("takes", 1500), ("suicide",), ("takes", 50)]:
        session = Session(sandbox, {"assignment/m.py": source}, c.limits, seed=0, forbidden=[])
        try:
            print(session.run(call, {"module": "m", "function": function, "args": tuple(args), "kwargs": {}}))
        except Exception as e:
            print(type(e).__name__, e)
        session.close()
    limit.write_text(str(2**40))
"""


@pytest.fixture
def memory_group():
    """A control group whose memory can be limited: its list of processes, its limit and its use."""
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
    pytest.skip("no control group for memory can be made here")


@pytest.mark.slow
def test_what_the_kernel_kills_for_want_of_memory_is_no_crash_of_the_students(memory_group, root):
    """The machine has less than a test may take. A suicide by the same signal is a crash, before that and after."""
    processes, *files = map(str, memory_group)
    enter = ["sh", "-c", f'echo $$ > {processes} && exec "$@"', "sh"]
    command = [*enter, sys.executable, "-c", STARVED, *files]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    before, suicide, killed, again, after = done.stdout.splitlines() or [done.stderr] * 5
    assert [str(50 * 2**20)] * 2 == [before, after]
    assert ["Crashed its process was ended by signal 9 (killed)"] * 2 == [suicide, again]
    assert re.match(
        r"GraderFault a test's process was killed from outside, while it took [\d.]+ MiB of its 2 GiB: ",
        killed,
    ), killed


# --- the box ------------------------------------------------------------------------------------------------------------


def test_the_zygote_is_what_a_zygote_has_to_be(sandbox):
    """Process 1, an ordinary user, without capabilities, filtered: the grader looks before it trusts it."""
    facts = sandbox.facts
    assert (1, 0, True, 2) == (
        facts["pid"],
        facts["capabilities"],
        facts["no_new_privileges"],
        facts["seccomp"],
    )
    assert facts["uid"] != 0
    assert torch.__version__ == facts["torch"]


def test_a_students_process_has_no_privilege(sandbox):
    """No capability that it has or could get, no group, a user that owns nothing, a filter that stays."""
    source = """
        import os
        def f():
            status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
            return status, os.getresuid(), os.getresgid(), os.getgroups()
    """
    status, users, groups, further = answer(sandbox, source)
    capabilities = {
        name: int(value, 16)
        for name, value in status.items()
        if name in ("CapPrm", "CapEff", "CapAmb")
    }
    assert {"CapPrm": 0, "CapEff": 0, "CapAmb": 0} == capabilities
    assert ("1", "2") == (status["NoNewPrivs"], status["Seccomp"])
    assert 0 not in (*users, *groups, *further)
    assert [] == [g for g in further if g != 65534]


def test_the_environment_holds_only_our_variables(sandbox):
    """Of the grader's own, with its tokens and paths, nothing."""
    assert "PATH" in os.environ
    names = answer(sandbox, "import os\ndef f():\n    return sorted(os.environ)\n")
    ours = {
        "HOME",
        "TMPDIR",
        "LANG",
        "LD_LIBRARY_PATH",
        "OMP_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTHONMALLOC",
        "GLIBC_TUNABLES",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONWARNINGS",
    }
    torchs = {n for n in names if n.startswith(("TORCH", "KMP", "TRITON", "KINETO"))}
    assert ours == {*names} - torchs - {"PWD", "LC_CTYPE"}


WRITE = """
    import os
    def f(path):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        except OSError as e:
            return os.strerror(e.errno)
        return "written"
"""


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "/dev/x",
        "/dev/shm/x",
        "/etc/x",
        "/site/x",
        "/site/torch/x",
        "/runtime/x",
        "/course/tests/probes/x",
        "/python/x",
        "/usr/x",
    ],
)
def test_nothing_but_tmp_can_be_written_to(path, sandbox):
    """Each is a read-only file system, whoever may own the folder."""
    assert answer(sandbox, WRITE, path) in ("Read-only file system", "Permission denied")
    flag = answer(
        sandbox,
        "import os\ndef f(path):\n    return os.statvfs(path).f_flag & os.ST_RDONLY\n",
        str(Path(path).parent),
    )
    assert os.ST_RDONLY == flag
    assert "written" == answer(sandbox, WRITE, "/tmp/x")


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/proc/1/oom_score_adj",
        "/proc/sysrq-trigger",
    ],
)
def test_the_kernels_switches_cannot_be_turned(path, sandbox):
    """/proc is read-only too."""
    assert answer(sandbox, WRITE, path) in (
        "Read-only file system",
        "Permission denied",
        "No such file or directory",
    )


@pytest.mark.parametrize(
    "path",
    ["/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd", "/proc/1/root", "/proc/1/cwd"],
)
def test_the_zygote_cannot_be_looked_into(path, sandbox):
    """It is not dumpable, and its files belong to nobody inside."""
    source = "import os\ndef f(path):\n    return os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1)\n"
    assert "PermissionError" == fault_name(sandbox, source, path)


def fault_name(sandbox, source, *args):
    """The name of the exception that f raises."""
    with session(sandbox, source) as made, pytest.raises(Raised) as caught:
        ask(made, *args)
    return caught.value.type_name


def test_there_is_no_network(sandbox):
    """No interface but a loopback that is down, and no socket that could reach one."""
    source = "import socket\ndef f():\n    return [name for _, name in socket.if_nameindex()]\n"
    assert fault_name(sandbox, source) in ("OSError", "PermissionError")
    lines = answer(sandbox, "def f():\n    return open('/proc/net/dev').read().splitlines()[2:]\n")
    assert ["lo"] == [line.split(":")[0].strip() for line in lines]
    for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET"):
        assert "PermissionError" == fault_name(
            sandbox, f"import socket\ndef f():\n    socket.socket(socket.{family})\n"
        )


# --- system calls -------------------------------------------------------------------------------------------------------

MACHINE = seccomp.MACHINES[platform.machine()]
SYSCALLS = """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    def f(calls):
        errors = []
        for number, *arguments in calls:
            ctypes.set_errno(0)
            result = libc.syscall(number, *map(ctypes.c_long, arguments))
            errors.append(ctypes.get_errno() if result == -1 else 0)
        return errors
"""


def test_denied_system_calls_fail_with_eperm(sandbox):
    """Every one of the list: new namespaces, keyrings, memory files, other processes, mounts, …"""
    names = sorted(MACHINE.denied)
    got = answer(sandbox, SYSCALLS, [[MACHINE.denied[name], 0, 0, 0, 0, 0] for name in names])
    assert dict.fromkeys(names, errno.EPERM) == dict(zip(names, got, strict=True))
    assert {
        "unshare",
        "keyctl",
        "memfd_create",
        "ptrace",
        "setns",
        "mount",
        "bpf",
        "io_uring_setup",
    } <= set(names)


def test_clone3_does_not_exist(sandbox):
    """Its flags lie where a filter cannot read them; the C library then uses clone."""
    assert [errno.ENOSYS] == answer(sandbox, SYSCALLS, [[MACHINE.clone3, 0, 0]])


@pytest.mark.parametrize(
    "flag",
    [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000],
    ids=hex,
)
def test_clone_makes_no_namespace(flag, sandbox):
    """While it makes processes."""
    assert [errno.EPERM] == answer(sandbox, SYSCALLS, [[MACHINE.clone, flag | 17, 0, 0, 0, 0]])
    assert (
        answer(
            sandbox,
            "import os\ndef f():\n    return os.waitpid(os.fork() or os._exit(5), 0)[1] >> 8\n",
        )
        == 5
    )


def test_sockets_are_local(sandbox):
    """A pair of connected ones is what libraries use to talk to themselves."""
    assert [0] == answer(sandbox, SYSCALLS, [[MACHINE.socket, 1, 1, 0]])
    assert [errno.EPERM] * 4 == answer(
        sandbox, SYSCALLS, [[MACHINE.socket, family, 1, 0] for family in (2, 10, 16, 17)]
    )


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_filter_is_whole_instructions(machine):
    """And ends with an answer, for each machine that there is a table for."""
    program = seccomp.program(machine)
    assert 0 == len(program) % 8
    assert program.endswith(b"\x06\0\0\0\x00\x00\xff\x7f")


def test_another_machine_is_refused():
    """A filter with another machine's numbers would be worse than none."""
    with pytest.raises(
        GraderFault,
        match=r"^no list of system calls for a vax processor: add one to grader\.sandbox\.seccomp$",
    ):
        seccomp.program("vax")


# --- what can be seen ---------------------------------------------------------------------------------------------------


def test_of_the_project_only_the_worker_and_the_probes_can_be_seen(sandbox):
    """Every file outside of the packages, the standard library, the C library and the kernel's folders."""
    source = """
        import os
        def f():
            found = []
            for folder, folders, files in os.walk("/"):
                if folder == "/":
                    folders[:] = [n for n in folders if n not in ("proc", "dev", "sys", "site", "python", "usr")]
                found += [os.path.join(folder, n) for n in files if not n.endswith(".pyc")]
            return sorted(found)
    """
    root = Path(bubblewrap.__file__).parent.parent.parent
    worker = [f"/runtime/{p.relative_to(root)}" for p in (root / "grader/worker").glob("*.py")]
    probes = [f"/course/{p.relative_to(root)}" for p in (root / "tests/probes").rglob("*.py")]
    theirs = {f"/tmp/submission/assignment/{name}" for name in ("__init__.py", "m.py")}
    expected = {*worker, *probes, *theirs, "/runtime/grader/protocol.py"}
    assert expected == set(answer(sandbox, source)) - {"/etc/ld.so.cache"}


def test_of_the_packages_only_those_that_are_allowed_can_be_seen(sandbox):
    """Not pytest, not the grader's own libraries, not the grader."""
    source = "import os\ndef f():\n    return sorted(os.listdir('/site')), sorted(os.listdir('/python/lib'))\n"
    packages, library = answer(sandbox, source)
    assert {path.name for path in bubblewrap.package_paths()} == set(packages)
    assert {"torch", "numpy", "einops", "jaxtyping"} <= set(packages)
    assert not {
        "pytest",
        "_pytest",
        "grader",
        "tests",
        "msgspec",
        "rich",
        "typer",
        "hypothesis",
        "pip",
    } & set(packages)
    assert not any("resource_accounting" in name for name in packages)
    assert not any("packages" in name for name in library)


@pytest.mark.parametrize(
    "module",
    ["grader", "grader.protocol", "grader.solutions.reference.linear", "tests.hidden", "tests.hidden.test_linear",
     "tests.expect", "tests.conftest", "pytest", "_pytest", "msgspec", "rich", "typer", "hypothesis", "pip", "packaging"],
)  # fmt: skip
def test_a_submission_cannot_import(module, sandbox):
    """Neither by name nor out of what is loaded already."""
    source = "import importlib, sys\ndef f(name):\n    assert name not in sys.modules\n    importlib.import_module(name)\n"
    assert "ModuleNotFoundError" == fault_name(sandbox, source, module)


def test_no_path_of_the_graders_shows(sandbox):
    """Neither in the module path, nor in what torch or Python say of where they are, nor in the mounts' targets."""
    source = """
        import os, sys, torch
        def f():
            return [*sys.path, sys.prefix, sys.base_prefix, sys.executable, torch.__file__, os.getcwd(), *sys.argv]
    """
    allowed = ("/python", "/site", "/course", "/tmp", "/usr", "/runtime")
    assert [] == [
        p for p in answer(sandbox, source) if p and p.startswith("/") and not p.startswith(allowed)
    ]


# --- other ways to run it -----------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from grader import course
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from tests.probes import call
c = course.load()
with Sandbox(c.tests, isolation=sys.argv[1], scratch_bytes=2**20) as sandbox:
    source = b"import os\\ndef f():\\n    return os.getpid(), os.getuid(), sorted(os.listdir('/'))\\n"
    session = Session(sandbox, {"assignment/m.py": source}, c.limits, seed=0, forbidden=[])
    pid, uid, root = session.run(call, {"module": "m", "function": "f", "args": (), "kwargs": {}})
    session.close()
    facts = sandbox.facts
    print(sandbox.isolation, facts["pid"] == 1, facts["uid"] == 0, facts["capabilities"] == 0, facts["seccomp"], "site" in root)
"""


@pytest.fixture(scope="module")
def bare():
    """A worker that is locked up nowhere."""
    with Sandbox(COURSE.tests, isolation="none", scratch_bytes=MIB) as running:
        yield running


@contextmanager
def bare_session(bare, source):
    """A session of a package that has an __init__.py, which wins over the course's own."""
    sources = {"assignment/__init__.py": b"", "assignment/m.py": source}
    made = Session(bare, sources, LIMITS, seed=0, forbidden=[])
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_without_isolation_it_runs_and_says_so(bare):
    """For a laptop without bubblewrap: the same answers, and a name that every report prints."""
    assert bare.isolation == "none"
    with bare_session(bare, b"def f(x):\n    return x + 1\n") as made:
        assert [3.0] == ask(made, torch.tensor([2.0])).tolist()
    ended = pytest.raises(Crashed, match=r"^its process exited with code 3 before it answered$")
    with bare_session(bare, b"import os\ndef f():\n    os._exit(3)\n") as made, ended:
        ask(made)
    with bare_session(
        bare, b"import os\ndef f():\n    return os.listdir(os.environ['TMPDIR'])\n"
    ) as made:
        assert ["submission"] == ask(made)


@pytest.mark.slow
def test_without_isolation_the_students_modules_are_graded(bare):
    """And not the stubs that lie beside the tests."""
    assert answer(bare, "def f():\n    return 1\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else"
)
def test_an_ordinary_user_gets_the_same_box():
    """In a user namespace then: process 1, no capability, filtered."""
    as_an_ordinary_user({})


def as_an_ordinary_user(environment):
    """Run SCRIPT as somebody who owns nothing here; skip where that cannot be."""
    root = Path(bubblewrap.__file__).parent.parent.parent
    become = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        sys.executable,
        "-c",
    ]
    options = {
        "cwd": root,
        "capture_output": True,
        "text": True,
        "env": {**os.environ, **environment},
    }
    able = subprocess.run([*become, "import torch, grader, tests.probes"], timeout=120, **options)
    if able.returncode:
        pytest.skip(
            f"that user cannot run the interpreter or read the checkout: {able.stderr.strip()[-200:]}"
        )
    done = subprocess.run([*become, SCRIPT, "bubblewrap"], timeout=300, **options)
    if "the sandbox cannot be started" in done.stderr:
        pytest.skip(f"that user cannot be given a box here: {done.stderr.strip()[-300:]}")
    assert ("bubblewrap True False True 2 True\n", "") == (done.stdout, done.stderr)


UNKNOWN = {
    "0.6.0": ["--size", "--disable-userns", "--assert-userns-disabled"],
    "0.4.0": [
        "--size",
        "--disable-userns",
        "--assert-userns-disabled",
        "--perms",
        "--chmod",
        "--clearenv",
        "--add-seccomp-fd",
    ],
    "0.3.1": ["--size", "--disable-userns", "--perms", "--clearenv", "--ro-bind-try", "--as-pid-1"],
}


def bubblewrap_of_age(folder, version):
    """A folder with a `bwrap` that says it is this old, refuses what was unknown then, and otherwise is the real one."""
    real, unknown = shutil.which("bwrap"), "|".join(UNKNOWN[version])
    script = f"""#!/bin/sh
case "$1" in
    --version) echo "bubblewrap {version}"; exit;;
    --help) {real} --help | grep -Ev -e '^ *({unknown}) '; exit;;
esac
for word do
    case "$word" in {unknown}) echo "bwrap: Unknown option $word" >&2; exit 1;; esac
done
exec {real} "$@"
"""
    folder.chmod(0o755)
    (folder / "bwrap").write_text(script)
    (folder / "bwrap").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.4.0", "0.6.0"])
def test_an_old_bubblewrap_makes_the_same_box(version, tmp_path, monkeypatch):
    """Tight, with a folder to write in that has a limit, and without a way to a namespace."""
    monkeypatch.setenv("PATH", bubblewrap_of_age(tmp_path, version))
    writes = """
        import time
        def f():
            for i in range(64):
                with open(f"/tmp/{i}", "wb", buffering=0) as file:
                    file.write(bytes(2**20))
                time.sleep(0.05)
    """
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=8 * MIB) as old:
        assert (1, 0, True, 2, False) == tuple(
            old.facts[name]
            for name in ("pid", "capabilities", "no_new_privileges", "seccomp", "nests")
        )
        flags = [0x10000000, 0x20000000, 0x00020000]
        calls = [[MACHINE.denied["unshare"], flag, 0] for flag in flags] + [
            [MACHINE.clone, flag | 17, 0, 0, 0, 0] for flag in flags
        ]
        assert [errno.EPERM] * 6 == answer(old, SYSCALLS, calls)
        expected = (Status.CRASHED, "it wrote more than 64 MiB of files, the limit of a test", None)
        assert expected == fault(old, Crashed, writes)
        assert "written" == answer(old, WRITE, "/tmp/x")
        assert answer(old, WRITE, "/site/x") == "Read-only file system"
        assert (["submission"], 2) == answer(old, LOOK)


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else"
)
def test_an_old_bubblewrap_makes_the_same_box_for_an_ordinary_user(tmp_path):
    """What --disable-userns would do, the filter does: the worker looks whether it can make a user namespace."""
    for folder in [*tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    as_an_ordinary_user({"PATH": bubblewrap_of_age(tmp_path, "0.4.0")})


def test_a_bubblewrap_that_is_too_old_is_named(tmp_path, monkeypatch):
    """With its version, the one that is needed, and what it lacks."""
    monkeypatch.setenv("PATH", bubblewrap_of_age(tmp_path, "0.3.1"))
    lacks = "it lacks --as-pid-1, --ro-bind-try. The sandbox needs 0.4.0 or later, first in PATH"
    with pytest.raises(SandboxUnavailable) as refusal:
        Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB)
    assert f"bubblewrap 0.3.1 ({tmp_path}/bwrap) is too old: {lacks}" == str(refusal.value)


@pytest.mark.slow
def test_a_zygote_that_hangs_is_gone_when_its_box_is_closed(monkeypatch):
    """Also where it does not read its socket any more, and whoever started it is another user than it is."""
    monkeypatch.setattr("grader.sandbox.box.END_SECONDS", 1.0)
    hanging = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=2**20)
    pid = hanging.host_pid
    os.kill(pid, signal.SIGSTOP)
    hanging.close()
    assert (
        not Path(f"/proc/{pid}").exists() or "Z (zombie)" in Path(f"/proc/{pid}/status").read_text()
    )
