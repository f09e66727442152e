"""The real sandbox: each limit and its message, what a submission can do, and cleanup."""

import errno
import marshal
import os
import platform
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from grader.base.errors import (
    Crashed,
    GraderFault,
    NotAttempted,
    OutOfMemory,
    PolicyBroken,
    Raised,
    SandboxUnavailable,
    Status,
    StudentFault,
    TimedOut,
)
from grader.course import courses
from grader.grading.budget import Budgets
from grader.grading.grade import grade
from grader.report import json_report
from grader.sandbox import seccomp, shown
from grader.sandbox.box import Sandbox
from grader.sandbox.levels import landlock
from grader.sandbox.meter import Budget, Patience, Spare
from grader.sandbox.preflight import check_cpu
from grader.sandbox.session import Session
from grader.shared import protocol
from grader.shared.protocol import Other
from grader.submission.submissions import Submission
from kit.student import call, call_and_keep_inputs
from tests.grader.ordinary_user import NEEDS_ROOT, as_an_ordinary_user
from tests.grader.told import told
from tests.sampling import every

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("sandbox"),
]  # one warm sandbox serves this file

COURSE = courses.load()
POINTS = sum(problem.points for problem in COURSE.problems)
MIB = 2**20
LIMITS = msgspec.structs.replace(
    COURSE.limits, wall_seconds=120.0, cpu_seconds=60, memory_bytes=512 * MIB
)


@pytest.fixture(scope="module")
def sandbox():
    """A sandbox with 8 MiB of scratch space."""
    with Sandbox(
        COURSE.tests, isolation="bubblewrap", scratch_bytes=8 * MIB, preload=COURSE.preload
    ) as running:
        yield running


@contextmanager
def session(
    sandbox, source, *, seed=0, compiled=None, forbidden=(), budget=None, patience=None, **limits
):
    """A sandbox session for one test, in which the student's module is assignment/m.py."""
    sources = {"assignment/m.py": textwrap.dedent(source).encode()}
    limited = msgspec.structs.replace(LIMITS, **limits)
    made = Session(
        sandbox,
        sources,
        limited,
        seed=seed,
        compiled=compiled,
        forbidden=forbidden,
        budget=budget,
        patience=patience,
    )
    try:
        yield made
    finally:
        made.close()


def ask(made, *args, function="f"):
    """Return the result of a function of that module."""
    return made.run(call, {"module": "m", "function": function, "args": args, "kwargs": {}})


def answer(sandbox, source, *args, **options):
    """Return the result of f in a student's module, in a session of its own."""
    with session(sandbox, source, **options) as made:
        return ask(made, *args)


def fault(sandbox, kind, source, *args, **options):
    """Return the fault that ends a call of f, as (status, text, where)."""
    with session(sandbox, source, **options) as made, pytest.raises(kind) as caught:
        ask(made, *args)
    assert kind is type(caught.value) or kind is Raised
    return caught.value.status, str(caught.value), caught.value.where


# --- compiled modules -----------------------------------------------------------------------------


def test_a_module_is_compiled_once_for_many_sessions(sandbox):
    """What one session compiled, another one runs, here in place of another source.

    Tracebacks name the file of the submission.
    """
    with session(sandbox, "def f():\n    raise ValueError('first')") as made:
        compiled = made.compile(["assignment/m.py"])
    second = "def f():\n    return 'second'"
    with (
        session(sandbox, second, compiled=compiled) as made,
        pytest.raises(Raised, match="first") as caught,
    ):
        ask(made)
    assert caught.value.where == "assignment/m.py:2 in f"


def test_code_that_was_compiled_for_another_folder_is_not_used(sandbox):
    """A box that replaces another one may have its files elsewhere."""
    elsewhere = compile("def f(): return 1", "/elsewhere/assignment/m.py", "exec")
    compiled = {"assignment/m.py": marshal.dumps(elsewhere)}
    assert 2 == answer(sandbox, "def f(): return 2", compiled=compiled)


def test_code_that_is_much_longer_than_its_source_is_not_sent(sandbox):
    """Every process of a test would get it, and with its other files it might not fit a message."""
    values = ", ".join(f"'{number:05}' * 800" for number in range(1000))
    with session(sandbox, f"def f():\n    return len(({values}))") as made:
        assert {} == made.compile(["assignment/m.py"])
        assert 1000 == ask(made)


@pytest.mark.parametrize(
    "source",
    ["def f(:", "f = " + "-" * 100_000 + "1", "f = 1\0"],
    ids=["not Python", "nested deeply", "a null byte"],
)
def test_what_cannot_be_compiled_fails_when_it_is_imported(sandbox, source):
    """Compiling raises nothing, so that the error appears where the module is used."""
    with session(sandbox, source) as made:
        compiled = made.compile(["assignment/m.py"])
        assert {"assignment/m.py": b""} == compiled
    with session(sandbox, source, compiled=compiled) as made, pytest.raises(StudentFault):
        ask(made)


# --- cores ----------------------------------------------------------------------------------------

CORES = """
    import os
    def f():
        return sorted(os.sched_getaffinity(0))
"""


def test_both_sides_of_a_test_share_a_core(sandbox):
    """And afterwards, the grader may use all its cores again."""
    allowed = os.sched_getaffinity(0)
    try:
        for core in sorted(allowed):  # so that the child that waits is on the core before
            os.sched_setaffinity(0, {core})
            with session(sandbox, CORES) as made:
                assert ask(made) == [core]
        os.sched_setaffinity(0, allowed)
        with session(sandbox, CORES) as made:
            # If the graders of other tests have all cores, these are all of them.
            assert ask(made) == sorted(os.sched_getaffinity(0))
        assert os.sched_getaffinity(0) == allowed
    finally:
        os.sched_setaffinity(0, allowed)


def test_the_sides_part_while_a_large_frame_crosses(sandbox, monkeypatch):
    """One writes while the other reads. For other frames, they stay on their core."""
    parted = []
    really_part = sandbox.core.part
    monkeypatch.setattr(
        sandbox.core,
        "part",
        lambda: (really_part(), parted.append(os.sched_getaffinity(0))),
    )
    source = """
        import torch
        def f(x, size):
            return [len(x), torch.ones(size, dtype=torch.uint8)]
    """
    large = 5 * MIB
    with session(sandbox, source) as made:
        ask(made, torch.ones(9), 7)
        shared, seen = os.sched_getaffinity(0), []
        for size, answered in [(9, 7), (large, 7), (9, large), (large, large)]:
            parted.clear()
            count, got = ask(made, torch.ones(size, dtype=torch.uint8), answered)
            assert (size, answered) == (count, got.numel())
            assert os.sched_getaffinity(0) == shared
            seen.append(len(parted))
    assert seen == [0, 1, 1, 1]
    if len(shared) == 1 < len(os.sched_getaffinity(0)):  # other tests may have all cores
        assert not shared & parted[0]


def test_a_test_that_is_killed_leaves_the_core(sandbox):
    """However a test ends, the grader may use all its cores again."""
    allowed = os.sched_getaffinity(0)
    fault(sandbox, Crashed, "import os\ndef f(): os.kill(os.getpid(), 15)")
    assert os.sched_getaffinity(0) == allowed


# --- what the zygote has imported -----------------------------------------------------------------

IMPORTED = """
    import sys
    before = set(sys.modules)
    def f(name):
        return name in before
"""


@pytest.mark.slow
def test_a_course_says_what_is_imported_before_its_tests(sandbox):
    """Preloading takes no test's time, and a course that preloads nothing saves the seconds."""
    assert all(answer(sandbox, IMPORTED, name) for name in COURSE.preload)
    with Sandbox(COURSE.tests, isolation="none", scratch_bytes=MIB) as without:
        assert not answer(without, IMPORTED, "torch.fx.experimental.symbolic_shapes")


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


@pytest.mark.slow
def test_the_compiler_is_imported_before_the_student_needs_it():
    """Imported later, it would cost the student's time, and run into a tripwire for `adamw`."""
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB) as own:
        assert not answer(own, IMPORTED, "torch._dynamo.eval_frame")
        for forbidden in {tuple(problem.forbidden) for problem in COURSE.problems}:
            assert answer(own, NEEDS_THE_COMPILER, forbidden=forbidden), forbidden
        # The memory of the compiler is the sandbox's, not the student's.
        grown = "def f():\n    import torch\n    return torch.ones(100 * 2**20).numel()\n"
        assert answer(own, grown, memory_bytes=512 * MIB) == 100 * MIB


# --- several tests in one process -----------------------------------------------------------------

COUNTS = """
    import atexit, ctypes, functools, gc, itertools, locale, os, resource, signal, socket, sys
    import threading, time, warnings
    import numpy as np
    import torch, torch.utils.flop_counter

    calls = itertools.count(1)  # the one kind of state of a module that is not looked at

    def count():
        return next(calls)

    number = 0
    table = {{"a": [1]}}
    weights = torch.zeros(2)

    def default(x=[]):
        x.append(1)

    def inner():
        n = 0
        def add():
            nonlocal n
            n += 1
        return add

    add = inner()

    @functools.lru_cache
    def cached(x):
        return [x]

    class Layer(torch.nn.Module):
        made = 0

        def forward(self, x):
            return x

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            return operation(*args, **(kwargs or {{}}))

    class Endless(list):
        def __iter__(self):
            while True:
                yield 1

        def __getattr__(self, name):
            return Endless()

    endless = Endless()
    layer = Layer()

    def leave():
        global number
        {leave}
    """


def leftovers(leave):
    """A module whose `leave` leaves something behind, and whose `count` counts its calls."""
    return COUNTS.format(leave=leave)


def test_tests_share_a_process_that_they_leave_as_it_was(sandbox):
    """The module is imported once; files are removed, and the working folder is restored."""
    source = leftovers("open('file', 'w').write('x'); os.mkdir('a'); os.chdir('a'); return 1")
    with session(sandbox, source) as made:
        made.begin_test(0)
        assert (1, False) == (ask(made, function="count"), made.is_shared)
        assert 1 == ask(made, function="leave")
        made.begin_test(0)
        assert (2, True) == (ask(made, function="count"), made.is_shared)
        assert 1 == ask(made, function="leave"), "the folder `a` is still there"


KEPT = [
    "cached(3)",
    "layer(torch.zeros(1))",
    "torch.optim.SGD([torch.zeros(1)], lr=1).step()",
    "with Mode(): torch.zeros(1)",
    "number = 0",
    "table['a'] = table.pop('a')",
]


@pytest.mark.parametrize("leave", KEPT)
def test_what_changes_nothing_in_the_students_modules_costs_no_process(sandbox, leave):
    """Containers of the student's that never end do not change this."""
    with session(sandbox, leftovers(leave)) as made:
        made.begin_test(0)
        assert 1 == ask(made, function="count")
        ask(made, function="leave")
        made.begin_test(0)
        assert (2, True) == (ask(made, function="count"), made.is_shared)


def test_each_test_has_its_own_seed_in_a_shared_process(sandbox):
    """The generators have the seed of the test, not of the process."""
    source = "import random, torch\ndef f():\n    return [random.random(), torch.rand(1).item()]"
    drawn = []
    with session(sandbox, source) as made:
        for seed in (1, 2, 1):
            made.begin_test(seed)
            drawn.append(ask(made))
    assert drawn[0] == drawn[2] != drawn[1]


LEFT = [
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "os.fork() or time.sleep(60)",
    "os.fork() or (os.setsid(), os.fork() and os._exit(0), time.sleep(60))",
    "signal.setitimer(signal.ITIMER_REAL, 60)",
    "signal.alarm(60)",
    "signal.signal(signal.SIGTERM, lambda *_: None)",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    "sys.kept = open('/dev/null')",
    "sys.kept = socket.socketpair()",
    "os.environ['LEFT'] = '1'",
    "sys.path.insert(0, '/nowhere')",
    "sys.setrecursionlimit(500)",
    "sys.settrace(lambda *_: None)",
    "sys.excepthook = print",
    "sys.stdout = open(1, 'w', closefd=False)",
    "gc.disable()",
    "gc.set_threshold(1)",
    "warnings.simplefilter('error')",
    "np.seterr(all='raise')",
    "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_default_device('meta')",
    "torch.set_grad_enabled(False)",
    "sys.kept = torch.inference_mode(); sys.kept.__enter__()",
    "torch.autograd.set_detect_anomaly(True)",
    "torch.use_deterministic_algorithms(False)",
    "torch.utils.deterministic.fill_uninitialized_memory = False",
    "torch.set_num_threads(2)",
    "torch.set_float32_matmul_precision('medium')",
    "torch.autocast('cpu').__enter__()",
    "torch.utils.flop_counter.FlopCounterMode(display=False).__enter__()",
    "torch.overrides.TorchFunctionMode().__enter__()",
    "torch.nn.modules.module.register_module_forward_hook(lambda *_: None)",
    "os.mkdir('locked'); open('locked/file', 'w'); os.chmod('locked', 0)",
    "os.listdir = lambda *_: []",
    "os.scandir = None",
    "number = 1",
    "table['a'].append(2)",
    "table['b'] = 1",
    "weights.add_(1)",
    "default()",
    "add()",
    "Layer.made += 1",
    "Layer.forward = lambda self, x: 2 * x",
    "layer.last = 1",
    "leave.calls = 1",
    "inner.__defaults__ = (1,)",
]


@pytest.mark.parametrize("leave", LEFT)
def test_what_a_test_leaves_ends_its_process(sandbox, leave):
    """The next test starts in a new process that it does not share."""
    with session(sandbox, leftovers(leave)) as made:
        made.begin_test(0)
        assert 1 == ask(made, function="count")
        ask(made, function="leave")
        made.begin_test(0)
        assert (1, False) == (ask(made, function="count"), made.is_shared)


def test_a_test_begins_again_in_a_process_of_its_own(sandbox):
    """What is set aside for repeated tests pays for the time in the shared process."""
    budget = Budget(cpu_seconds=100, wall_seconds=100, spare=Spare(1.0, 1.0))
    source = "import time\ndef f():\n    time.sleep(0.3)\ndef g():\n    pass"
    with session(sandbox, source, budget=budget) as made:
        made.begin_test(0)
        ask(made)
        made.begin_test(0)
        used = budget.wall_used
        assert used >= 0.2
        ask(made)
        assert made.is_shared
        made.begin_again()
        assert 1.0 - budget.spare.wall_seconds >= 0.2
        assert budget.wall_used == used
        ask(made, function="g")
        assert not made.is_shared


def test_an_attempt_is_charged_to_its_problem_once_nothing_is_set_aside(sandbox):
    """Otherwise, code that fails in every shared process would have two budgets."""
    budget = Budget(cpu_seconds=100, wall_seconds=100, spare=Spare(0.0, 0.15))
    source = "import time\ndef f():\n    time.sleep(0.3)\ndef g():\n    pass"
    with session(sandbox, source, budget=budget) as made:
        ask(made, function="g")
        made.begin_test(0)
        used = budget.wall_used
        ask(made)
        made.begin_again()
        assert budget.spare.wall_seconds == 0
        assert budget.wall_used >= used + 0.05


WAITS_AND_SAYS_USED = """
    import functools, os, sys, time, torch

    @functools.cache
    def kept():
        return {}

    def f():
        first = kept().setdefault("first", torch.initial_seed())
        if first == torch.initial_seed():
            return 1
        frame = sys._getframe()
        while frame.f_code.co_name != "_serve":
            frame = frame.f_back
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        encode = frame.f_globals["protocol"].encode
        number = frame.f_locals["request"]["id"]
        os.write(3, b"".join(encode({"id": number, "used": ["x"]})))
        time.sleep(1000)
"""


def test_a_process_that_waits_before_it_says_that_it_was_used_is_charged(sandbox):
    """Only student code can wait: an honest process says so before it runs any."""
    budget = Budget(cpu_seconds=100, wall_seconds=100)
    with session(sandbox, WAITS_AND_SAYS_USED, budget=budget) as made:
        for test in range(3):
            made.begin_test(test)
            assert ask(made) == 1
    sandbox.wait_until_ready()
    assert budget.wall_used >= 0.3
    assert budget.cpu_used >= 0.3


def test_code_that_prints_no_traceback_is_charged_for_the_wait(sandbox):
    """A test that hangs may ignore the signal that asks it for a traceback."""
    source = """
        import signal, time
        def f():
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            time.sleep(1000)
    """
    budget, patience = Budget(cpu_seconds=100, wall_seconds=100), Patience(0.1)
    with session(sandbox, source, budget=budget, patience=patience) as made:
        with pytest.raises(TimedOut, match="stopped doing anything"):
            ask(made)
        made.begin_test(0)
        assert budget.wall_used >= 1.0


# Its function answers request `number` with `used`, or says nothing for 0.
SAYS_USED = """
    import os, sys

    def f(number):
        frame = sys._getframe()
        while "protocol" not in frame.f_globals:
            frame = frame.f_back
        encode = frame.f_globals["protocol"].encode
        if number:
            os.write(3, b"".join(encode({"id": number, "used": ["x"]})))
"""


def test_an_answer_that_the_process_was_used_counts_once(sandbox):
    """In a new process, the answer `used` is a crash: only student code can have sent it."""
    with session(sandbox, SAYS_USED) as made:
        made.begin_test(0)
        with pytest.raises(Crashed):
            ask(made, 1)


def test_the_answer_that_a_process_was_used_comes_first(sandbox):
    """Later in a test, a process that says so would get its limits of time again."""
    with session(sandbox, SAYS_USED) as made:
        ask(made, 0)
        made.begin_test(0)
        ask(made, 0)
        assert made.is_shared
        with pytest.raises(Crashed):
            ask(made, 3)


def test_the_answers_of_a_test_take_a_limited_memory(sandbox):
    """A test may keep all of its answers. The next test may have as many again."""
    source = "import torch\ndef f(n=5 * 2**20): return torch.empty(n, dtype=torch.uint8)"
    with session(sandbox, source) as made:
        for number in range(2):
            made.begin_test(number)
            assert made.answered_bytes == 0
            for _ in range(3):
                assert ask(made).numel() == 5 * MIB
            assert 15 * MIB < made.answered_bytes < 15 * MIB + 2048
        with pytest.raises(Crashed, match=r"claims \d+ \+ 5242880 bytes; the answers of a test"):
            ask(made)
        made.begin_again()
        assert ask(made).numel() == 5 * MIB
        with pytest.raises(Crashed, match=r"cannot be sent: a value of 335\d+ bytes is too large"):
            ask(made, 32 * MIB)


def test_answers_without_tensors_take_a_limited_memory_too(sandbox):
    """A test with many calls could otherwise be sent a list of 99,000 numbers by each."""
    with session(sandbox, "def f(): return [0.5] * 99_000") as made:
        for _ in range(4):
            ask(made)
        with pytest.raises(Crashed, match="the answers of a test may take"):
            ask(made)
        assert made.answered_bytes <= protocol.MAX_ANSWER_BYTES


def test_a_call_returns_plain_data_and_tensors(sandbox):
    """Arguments keep their strides and shared storages, and answers arrive as real tensors."""
    x = torch.arange(12.0).view(3, 4).T
    source = """
        def f(x, y):
            shared = x.untyped_storage()._cdata == y.untyped_storage()._cdata
            return x.stride(), shared, x.sum(0), object(), [(1, "a")]
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
    """The student's code would receive a changed value and fail because of it.

    The session remains usable.
    """
    with session(sandbox, "def f(x):\n    return x\n") as made:
        with pytest.raises(GraderFault, match=rf"^a test's request cannot be sent: {where}$"):
            ask(made, *inputs)
        assert ask(made, 5) == 5


def test_a_value_that_cannot_be_looked_at_is_the_students(sandbox):
    """An exception while the answer is read is the student's.

    A value of a subclass becomes the plain value.
    """
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
    """Student code writes to a copy of the inputs; a probe can return the copy afterwards."""
    x = torch.zeros(3)
    with session(sandbox, "def f(x):\n    x += 1\n") as made:
        got = made.run(call_and_keep_inputs, {"module": "m", "function": "f", "args": (x,)})
    assert ([0.0] * 3, [1.0] * 3) == (x.tolist(), got["inputs"][0].tolist())


def test_state_of_a_module_lasts_for_one_session(sandbox):
    """The calls of one test share a process; two tests never do."""
    source = "calls = []\ndef f():\n    calls.append(1)\n    return len(calls)\n"
    with session(sandbox, source) as made:
        assert [1, 2] == [ask(made), ask(made)]
    assert answer(sandbox, source) == 1


def test_the_global_generators_are_seeded_before_each_call(sandbox):
    """random, numpy and torch give the same numbers at every call with one seed.

    Another seed gives other numbers.
    """
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


def test_memory_that_was_never_written_reads_as_nan(sandbox):
    """Uninitialized memory reads as NaN or as the largest integer, however it is allocated.

    A value that was never set is therefore wrong in the same way in every run.
    """
    nan, integers, version = answer(sandbox, UNINITIALISED)
    assert [True] * 18 == nan
    assert [[n, n] for n in (2**63 - 1, 2**31 - 1, 255)] == integers
    assert version == 0


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


@pytest.mark.slow
def test_a_weight_that_was_never_set_fails_the_same_tests_in_every_run(sandbox):
    """Two runs with each of two seeds fail the same tests with the same messages."""
    honest = (COURSE.reference / "linear.py").read_text()
    forgetful = honest.replace(
        "nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)", "weight"
    )
    assert forgetful != honest
    submission = Submission("forgetful", {"assignment/linear.py": forgetful.encode()}, [])
    before = {}
    for seed in (0, 1) * 2:
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
    assert failed[0] == failed[1]
    assert words[0] == words[1], "except for the sizes that a seed generates"


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wall_time_has_a_limit(sandbox):
    """Dozing uses hardly any CPU time but is ended too, and the message names the function."""
    source = (
        "import time\ndef g():\n    pass\n\n\ndef f():\n    while True:\n        time.sleep(0.02)\n"
    )
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
    """A test cannot use its limit twice, and no call starts once the time is used up."""
    with session(sandbox, "def f(x):\n    while x: pass\n", wall_seconds=1.0) as made:
        for _ in range(2):
            with pytest.raises(TimedOut, match=r"^no answer within 1 s, the limit of a test$"):
                ask(made, True)
        with pytest.raises(TimedOut):
            ask(made, False)


SLOW = "import time\ndef f(seconds):\n    time.sleep(seconds)\ndef busy():\n    while True: pass\n"


def test_only_the_students_calls_are_charged(sandbox, monkeypatch):
    """Waiting for a sandbox, its start, and the test's own work between calls are not charged."""
    ready, spawn = Sandbox.wait_until_ready, Sandbox.spawn
    monkeypatch.setattr(Sandbox, "wait_until_ready", lambda self: (time.sleep(0.7), ready(self)))
    monkeypatch.setattr(
        Sandbox, "spawn", lambda *given, **named: (time.sleep(0.7), spawn(*given, **named))
    )
    budget = Budget(cpu_seconds=5.0, wall_seconds=5.0)
    with session(sandbox, SLOW, budget=budget, wall_seconds=2.0) as made:
        for _ in range(3):
            ask(made, 0.1)
            time.sleep(0.7)  # the work of an oracle
    sandbox.wait_until_ready()
    assert 0.3 <= budget.wall_used < 1.0
    assert budget.cpu_used < 1.0


@pytest.mark.proof
def test_a_slow_start_of_every_test_costs_no_point(sandbox, monkeypatch):
    """A right solution passes although tests start slowly.

    The problem has two seconds, and each start takes longer than that.
    """
    ready = Sandbox.wait_until_ready
    monkeypatch.setattr(Sandbox, "wait_until_ready", lambda self: (time.sleep(0.5), ready(self)))
    problem = COURSE.problem("lr_schedule")
    # One second for each point.
    limits = msgspec.structs.replace(COURSE.limits, submission_seconds=float(POINTS))
    source = (COURSE.reference / f"{problem.module}.py").read_bytes()
    course = msgspec.structs.replace(COURSE, limits=limits)
    result = grade(
        Submission("right", {problem.path: source}, []), course, sandbox, problems=[problem]
    )
    assert result.score == result.max_score == 2, [
        t.message for t in result.problems[0].tests if t.message
    ]


@pytest.mark.proof
def test_eight_graders_at_once_cost_nobody_a_point(right, tmp_path):
    """Eight graders probably outnumber this machine's CPUs, and each gives full marks."""
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
    """A problem's time is its share of the course's points, whichever problems are graded.

    Repeated requests return the same budget.
    """
    problem, budgets = COURSE.problem("lr_schedule"), Budgets(COURSE, "cpu")
    budget = budgets.of(problem)
    seconds = 720 * 2 / POINTS
    assert (seconds, 4 * seconds) == (budget.cpu_seconds, budget.wall_seconds)
    other = budgets.of(COURSE.problem("linear"))
    assert budget is budgets.of(problem) is not other
    assert budget.spare is other.spare
    assert (72, 4 * 72) == (budget.spare.cpu_seconds, budget.spare.wall_seconds)


def test_the_time_of_an_option_includes_that_of_repeated_tests():
    """A submission that uses up everything still ends before Gradescope's deadline."""
    course = COURSE.limited(seconds=220)
    budgets = Budgets(course, "cpu")
    here = [problem for problem in course.problems if "cpu" in course.hidden_tests(problem)]
    shares = [budgets.of(problem) for problem in here]
    wall = sum(share.wall_seconds for share in shares) + shares[0].spare.wall_seconds
    assert wall == pytest.approx(220)


def test_a_problem_that_is_repeated_keeps_to_its_time():
    """What is set aside pays for the first pass as far as it goes; the problem pays the rest."""
    budget = Budget(cpu_seconds=10, wall_seconds=40, spare=Spare(3, 12))
    budget.charge(cpu=5, wall=11)
    budget.begin_again()
    assert (2, 0) == (budget.cpu_used, budget.wall_used)
    assert (0, 1) == (budget.spare.cpu_seconds, budget.spare.wall_seconds)
    budget.charge_attempt(cpu=1, wall=2)
    assert (3, 1) == (budget.cpu_used, budget.wall_used)


def test_tests_share_what_their_problem_has_of_the_processor(sandbox):
    """A test is stopped when the problem's CPU time is used up, and the next one does not start.

    A test that sleeps uses no CPU time.
    """
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
            match=r"^it used up the processor time that was left for the tests of its problem$",
        ),
    ):
        ask(made, function="busy")
    with (
        session(sandbox, SLOW, budget=budget) as made,
        pytest.raises(
            TimedOut,
            match=r"^the tests of its problem had used up their 2 s of processor time before this "
            "test began$",
        ),
    ):
        ask(made, 0.0)


def test_tests_share_what_their_problem_has_by_the_clock(sandbox):
    """Code that sleeps forever in every test cannot delay a grade for hours."""
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
        pytest.raises(TimedOut, match=r"^the tests of its problem had used up their 1 s before"),
    ):
        ask(made, 0.0)


def test_processes_that_it_starts_are_charged_as_well(sandbox):
    """Child processes that the code never waits for are charged too."""
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


def test_each_problem_is_charged_for_its_own_tests(sandbox):
    """Two problems that share a process are charged for what their own tests have used."""
    source = """
        import os, time
        def f(seconds):
            for _ in range(2):
                child = os.fork()
                end = time.process_time() + seconds / 2
                while time.process_time() < end: pass
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
    """
    first, second = (Budget(cpu_seconds=60.0, wall_seconds=60.0) for _ in range(2))
    with session(sandbox, source, budget=first) as made:
        ask(made, 0.5)
        made.begin_problem(second)
        made.begin_test(0)
        assert made.is_shared
        before = first.wall_used
        ask(made, 0.1)
    sandbox.wait_until_ready()
    assert 0.95 <= first.cpu_used < 1.5
    assert 0.15 <= second.cpu_used < 0.6
    assert before == first.wall_used > 0
    assert second.wall_used > 0


def test_only_the_attempt_that_is_repeated_does_not_count(sandbox):
    """A test that sleeps in a shared process frees no CPU time of the tests before it."""
    source = """
        import time
        def f(seconds):
            end = time.process_time() + seconds
            while time.process_time() < end: pass
        def sleep(seconds):
            time.sleep(seconds)
            raise ValueError
    """
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0, spare=Spare(9.0, 9.0))
    with session(sandbox, source, budget=budget) as made:
        for _ in range(4):
            made.begin_test(0)
            ask(made, 0.25)
        made.begin_test(0)
        wall_used = budget.wall_used
        with pytest.raises(Raised):
            ask(made, 1.5, function="sleep")
        made.begin_again()
        assert not made.is_shared
        assert budget.wall_used == wall_used > 0.95
        assert 9.0 - budget.spare.wall_seconds >= 1.5
        ask(made, 0.0)
    sandbox.wait_until_ready()
    assert 0.95 <= budget.cpu_used < 1.5
    assert budget.spare.cpu_seconds <= 9.0


@pytest.mark.parametrize("end", ["while True: pass", "os._exit(3)"])
def test_an_attempt_that_ends_its_shared_process_does_not_count(sandbox, end):
    """It is repeated in a process of its own, and what is set aside pays for the attempt."""
    source = f"""
        import os, time
        def f(seconds):
            end = time.process_time() + seconds
            while time.process_time() < end: pass
            if seconds == 1:
                {end}
    """
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0, spare=Spare(60.0, 60.0))
    with session(sandbox, source, budget=budget, cpu_seconds=2) as made:
        ask(made, 0.25)
        made.begin_test(0)
        wall_used = budget.wall_used
        with pytest.raises((TimedOut, Crashed)):
            ask(made, 1)
        made.begin_again()
        assert budget.wall_used == wall_used > 0.2
        ask(made, 0.25)
    sandbox.wait_until_ready()
    assert 0.45 <= budget.cpu_used < 1.0
    assert 60.0 - budget.spare.cpu_seconds >= 1.0


def test_a_process_that_cannot_be_shared_takes_no_time_from_the_next_test(sandbox):
    """What an earlier test left behind may run while the process is checked."""
    source = """
        import gc, time
        def f():
            gc.callbacks.append(lambda *_: time.sleep(0.5))
        def g():
            return 1
    """
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0, spare=Spare(60.0, 60.0))
    with session(sandbox, source, budget=budget) as made:
        ask(made)
        made.begin_test(0)
        assert made.is_shared
        assert ask(made, function="g") == 1
        assert not made.is_shared
        assert ask(made, function="g") == 1
    assert budget.wall_used < 1.5  # the check takes 3 s


@pytest.mark.parametrize("dies", ["between tests", "between problems", "during a test"])
def test_a_box_that_ends_while_a_child_lives_is_replaced(dies):
    """The next test has the new box; only a test that was running is a fault of the grader."""
    own = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB)
    with own, session(own, "import time\ndef f(seconds):\n    time.sleep(seconds)") as made:
        ask(made, 0.2)
        if dies.startswith("between"):
            os.kill(own.host_pid, signal.SIGKILL)
            if dies == "between problems":
                made.begin_problem(None)
            made.begin_test(0)
            assert not made.is_shared
            ask(made, 0)
        else:
            killer = threading.Timer(0.3, os.kill, [own.host_pid, signal.SIGKILL])
            killer.start()
            made.begin_test(0)
            with pytest.raises(GraderFault, match=r"^the sandbox stopped answering: "):
                ask(made, 100)
        made.close()
        for number in range(3):
            assert number == answer(own, "def f(x): return x", number)


def test_a_session_works_with_a_thousand_files_open(sandbox):
    """`select` cannot handle a descriptor above 1,023."""
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
    """Any exception becomes a GraderFault: a test that expects an OSError must not accept ours."""
    monkeypatch.setattr(Sandbox, "wait_until_ready", lambda self: os.close(-1))
    made = Session(sandbox, {}, LIMITS, seed=0, forbidden=[])
    with pytest.raises(GraderFault, match=r"^asking the sandbox failed: OSError: "):
        ask(made)


def test_processor_time_has_a_limit(sandbox):
    """The kernel enforces the limit, whatever the wall clock shows."""
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
    """The errors of Python, torch and numpy for lack of memory give the same status."""
    source = f"import numpy, torch\ndef f():\n    return {line}\n"
    expected = (
        Status.MEMORY,
        "it asked for more than 512 MiB, the limit of a test",
        "assignment/m.py:3 in f",
    )
    assert expected == fault(sandbox, OutOfMemory, source)


def test_memory_of_several_processes_has_the_same_limit(sandbox):
    """Each process uses at most a third of the limit; together they exceed it."""
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
    assert [((7, 8), (0, 0)), ((9, 10), (0, 0))] == [
        answer(sandbox, source, cpu_seconds=n) for n in (7, 9)
    ]


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("milliseconds", [0, 2, 4, 6, 8, 10, 12, 14])
def test_a_bubblewrap_that_is_killed_while_it_starts_leaves_nobody(milliseconds):
    """No child is left waiting if bubblewrap dies before the child has begun to watch it."""
    box = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=COURSE.limits.file_bytes)
    pid = box._box.process.pid
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
    """Return whether a process with this id exists and has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


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


def test_an_exit_at_import_is_a_crash_of_that_test(sandbox):
    """The next test has a working sandbox."""
    assert (
        "its process exited with code 7 before it answered"
        == fault(sandbox, Crashed, "import os\nos._exit(7)\n")[1]
    )
    assert answer(sandbox, "def f():\n    return 1\n") == 1


def test_a_session_goes_on_after_a_crash(sandbox):
    """The next call runs in a fresh process without any state of the first."""
    source = (
        "import os\nseen = []\ndef f(x):\n    seen.append(x)\n"
        "    return seen if x else os._exit(1)\n"
    )
    with session(sandbox, source) as made:
        assert [1] == ask(made, 1)
        with pytest.raises(Crashed):
            ask(made, 0)
        assert [2] == ask(made, 2)


def test_a_stub_is_not_attempted(sandbox):
    """The NotImplementedError comes from a line of the student's code."""
    source = "def f():\n    raise NotImplementedError('linear: see handout')\n"
    expected = (Status.NOT_ATTEMPTED, "linear: see handout", "assignment/m.py:2 in f")
    assert expected == fault(sandbox, NotAttempted, source)


def test_a_not_implemented_error_of_torchs_own_is_an_error(sandbox):
    """In this case, the student did attempt the problem."""
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
        ("open('/none')", FileNotFoundError, "FileNotFoundError",
            "[Errno 2] No such file or directory: '/none'"),
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
    """A test can expect the builtin type; the real type's name, the text and the place are kept."""
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
    """The place is known although no frame of the student's code ran."""
    assert (Status.FAILED, "assignment/m.py:2") == fault(sandbox, Raised, "x = 1\ndef f(:\n")[::2]


def test_a_forbidden_call_is_policy(sandbox):
    """A forbidden call is found under any name, even if the student's code catches exceptions."""
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


WAYS_TO_READ = {
    "open": "open(path, 'rb').read()",
    "a path object": "os.read(os.open(pathlib.Path(path), 0), 10**6)",
    "bytes": "io.FileIO(path.encode()).read()",
    "open_code": "io.open_code(path).read()",
    "a folder's descriptor": "os.read(os.open(name, 0, dir_fd=os.open(folder, 0)), 10**6)",
    "its folder": "(os.chdir(folder), open(name, 'rb').read())[1]",
    "a folder below /proc": "open(f'/proc/self/fd/{os.open(folder, 0)}/{name}', 'rb').read()",
    "the root below /proc": "open(f'/proc/self/root{path}', 'rb').read()",
    "a link": "(os.symlink(path, '/tmp/link'), open('/tmp/link', 'rb').read())[1]",
    "a link to its folder": "(os.symlink(folder, 'l'), open(f'l/{name}', 'rb').read())[1]",
    "a dotted path": "open(f'{folder}/../{os.path.basename(folder)}/./{name}', 'rb').read()",
    "a map": "np.memmap(path, dtype=np.uint8, mode='r').tobytes()",
    "numpy": "np.fromfile(path, dtype=np.uint8).tobytes()",
    "linecache": "''.join(linecache.getlines(path)).encode()",
    "a loader": "importlib.machinery.SourceFileLoader('m', path).get_data(path)",
    "resources": "importlib.resources.files('torch.nn.modules').joinpath(name).read_bytes()",
    "a tensor": "bytes(torch.from_file(path, size=size, dtype=torch.uint8).tolist())",
    "a storage": "bytes(torch.UntypedStorage.from_file(path, False, size).tolist())",
    "a typed storage": "bytes(torch.ByteStorage.from_file(path, False, size).tolist())",
    "an operator": "bytes(torch.ops.aten.from_file(path, size=size, dtype=torch.uint8).tolist())",
}
READS = """
import importlib.machinery, importlib.resources, io, linecache, os, pathlib
import numpy as np, torch
def f(path):
    folder, name = os.path.split(path)
    size = os.path.getsize(path)
    try:
        return {}
    except PermissionError:
        return b"denied"
"""


@pytest.mark.parametrize("way", WAYS_TO_READ.values(), ids=WAYS_TO_READ)
def test_a_guarded_source_is_read_in_no_way(way, sandbox):
    """Any other file is read in each of these ways, so that honest code may use them."""
    source = READS.format(way)
    forbidden = ["torch.nn.functional.linear", "torch.nn.Linear"]
    assert b"class" in answer(sandbox, source, "/site/torch/nn/modules/linear.py")
    guarded = answer(sandbox, source, "/site/torch/nn/modules/linear.py", forbidden=forbidden)
    assert guarded == b"" if "linecache" in way else guarded == b"denied"
    assert b"class" in answer(
        sandbox, source, "/site/torch/nn/modules/activation.py", forbidden=forbidden
    )


def test_modules_in_c_that_open_files_are_no_way_to_a_guarded_source(sandbox):
    """They would not tell Python, so they cannot be imported or used where something is guarded."""
    source = """
        def imports():
            import readline
        def finds():
            import ctypes
            return bool(ctypes.CDLL(None).open)
        def has():
            import ctypes
            return bool(ctypes.pythonapi.Py_IncRef)
    """
    rules = {"forbidden": ["torch.nn.Linear"]}
    for function, error in [
        ("imports", ImportError),
        ("finds", PermissionError),
        ("has", PermissionError),
    ]:
        with session(sandbox, source, **rules) as made, pytest.raises(error):
            ask(made, function=function)
    with session(sandbox, source) as made:
        assert ask(made, function="finds")


# --- cleanup --------------------------------------------------------------------------------------

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
LOOK = (
    "import os\ndef f():\n"
    "    return sorted(os.listdir('/tmp')), len([p for p in os.listdir('/proc') if p.isdigit()])\n"
)


def test_nothing_of_a_test_reaches_the_next(sandbox):
    """Files, links, pipes and daemons are gone.

    The next test sees only its own sources, the zygote and itself.
    """
    before = sandbox.host_pid
    for _ in range(2):
        assert (answer(sandbox, LITTER), (["submission"], 2)) == (1, answer(sandbox, LOOK))
    assert before == sandbox.host_pid


def test_a_test_that_was_ended_leaves_nothing_either(sandbox):
    """The test is killed while it is still running."""
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
    """The zygote removes everything without a restart.

    The test leaves folders without permissions, paths beyond the maximum length, thousands of
    files, and odd names.
    """
    before = sandbox.host_pid
    for _ in range(3):
        with session(sandbox, RESISTS) as made, suppress(Crashed):  # with too many files
            ask(made, function=way)
        assert (["submission"], 2) == answer(sandbox, LOOK)
    assert before == sandbox.host_pid


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the next test", "as the next test begins"])
def test_a_zygote_that_dies_is_a_fault_of_ours_and_is_replaced(when):
    """A dead zygote never costs a student anything, and a closed sandbox leaves no process."""
    with Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB) as own:
        pidfd = os.pidfd_open(own.host_pid)
        os.kill(own.host_pid, 9)
        if when == "before the next test":
            assert select.select([pidfd], [], [], 60)[0]
        os.close(pidfd)
        made = Session(own, {"assignment/m.py": b"def f(): return 1"}, LIMITS, seed=0, forbidden=[])
        with pytest.raises(GraderFault, match=r"^the sandbox "):
            ask(made)
        with suppress(GraderFault):
            made.close()
        assert answer(own, "def f(): return 1") == 1
        last = own.host_pid
    assert not Path(f"/proc/{last}").exists()


@pytest.mark.slow
def test_a_closed_sandbox_is_not_restarted(tmp_path, monkeypatch):
    """One thread may close it while another still asks it something."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB)
    own.wait_until_ready()
    own.close()
    with pytest.raises(GraderFault, match=r"^the sandbox has been closed$"):
        answer(own, "def f(): return 1")
    assert list(tmp_path.iterdir()) == []


def test_a_thread_that_closes_a_sandbox_in_use_ends_it_once(tmp_path, monkeypatch):
    """Both threads notice that the zygote is gone, but only one of them ends the box."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB)
    own.wait_until_ready()
    box = own._box
    ends, end = [], box.end
    monkeypatch.setattr(box, "end", lambda: [ends.append(threading.get_ident()), end()][1])
    closing = threading.Thread(target=own.close)
    threading.Timer(0.2, closing.start).start()

    def use():
        while True:
            answer(own, "def f(): return 1")

    with pytest.raises(GraderFault, match=r"^the sandbox has been closed$"):
        use()
    closing.join()
    assert ends == [closing.ident]
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_that_is_closed_as_a_test_begins_leaves_the_thread_its_cores(monkeypatch):
    """This thread moves to the shared core after the other one has left it, and before the end."""
    before = os.sched_getaffinity(0)
    own = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB)
    own.wait_until_ready()
    take = own.core.take

    def take_while_it_closes(zygote):
        take(zygote)
        with monkeypatch.context() as patch:
            patch.setattr(own.core, "leave", lambda: None)
            own.close()

    monkeypatch.setattr(own.core, "take", take_while_it_closes)
    with pytest.raises(GraderFault, match=r"^the sandbox has been closed$"):
        answer(own, "def f(): return 1")
    assert before == os.sched_getaffinity(0)


# --- limits of the caller's environment -----------------------------------------------------------


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """A folder to submit, in which every solution is right."""
    folder = tmp_path_factory.mktemp("right") / "assignment"
    folder.mkdir()
    for module in COURSE.modules:
        shutil.copy(COURSE.reference / f"{module}.py", folder)
    return folder.parent


def graded_in_a_shell(first, submission, *options, **environment):
    """Run `grader grade --only napkin_math` in a shell, after another command in that shell."""
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
    "-f 1000": (
        "the limit on the size of files (ulimit -f) is 1000 KiB here, and grading needs 65536 KiB"
    ),
    "-v 1000000": (
        "the limit on address space (ulimit -v) is 1000000 KiB here, and grading needs 4194304 KiB"
    ),
    "-d 100000": (
        "the limit on data in memory (ulimit -d) is 100000 KiB here, and grading needs 4194304 KiB"
    ),
    "-s 1000": "the limit on stacks (ulimit -s) is 1000 KiB here, and grading needs 8192 KiB",
}


@pytest.mark.slow
@pytest.mark.parametrize("limit", LOW)
def test_a_limit_that_is_too_low_is_named_before_anything_is_graded(limit, right, tmp_path):
    """The command prints one sentence and exits with 3 without a result.

    Nobody loses a point because of a scheduler's settings.
    """
    done = graded_in_a_shell(f"ulimit {limit}", right, "--json", tmp_path / "result.json")
    ours = "grader: this is a fault of the grader or of this machine: "
    further = ": start the grader from a shell or job whose hard limit is at least that high\n"
    assert (3, "", ours + LOW[limit] + further) == (done.returncode, done.stdout, done.stderr)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", every(2, ["-n 512 -u 64", "-Sn 20 -Su 20 -Sf 1000 -St 60 -Sv 4000000 -Sd 4000000"])
)
def test_a_limit_that_is_enough_or_can_be_raised_costs_nothing(
    limits, right, quick_course, tmp_path
):
    """The submission gets full marks: a test needs few descriptors, and a soft limit is raised."""
    flags = "; ulimit ".join(re.findall(r"-\w+ \d+", limits))
    options = ("--course", quick_course, "--json", tmp_path / "result.json")
    done = graded_in_a_shell(f"ulimit {flags}", right, *options)
    assert (0, "") == (done.returncode, done.stderr)
    result = json_report.parse((tmp_path / "result.json").read_text())
    assert result.score == result.max_score > 0


@pytest.mark.slow
def test_a_limit_that_only_a_test_meets_is_ours(bare_with):
    """The machine's limit is lower than the course's limit for a test.

    The check before the first test reports it, and every test would report it too.
    """
    source = "def f():\n    return 1\n"
    with bare_with("import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (2**30, 2**30))") as limited:
        said = (
            r"before it ran any student code: the grader was started with `ulimit -f` too low: "
            rf"{2**30}, and a test needs {2**40}$"
        )
        with pytest.raises(GraderFault, match=said):
            check_cpu(Session(limited, {}, msgspec.structs.replace(LIMITS, file_bytes=2**40)))
        with pytest.raises(GraderFault, match=said):
            answer(limited, source, file_bytes=2**40)
        assert answer(limited, source, file_bytes=2**20) == 1


@pytest.mark.slow
def test_a_sandbox_that_can_run_no_test_grades_nobody(bare_with):
    """There is no result at all, because every submission would have the same one."""
    source = (COURSE.reference / "optimizers.py").read_bytes()
    submission = Submission("right", {"assignment/optimizers.py": source}, [])
    with (
        bare_with("import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (2**20, 2**20))") as limited,
        pytest.raises(
            GraderFault, match=r"`ulimit -f` too low: 1048576, and a test needs 67108864"
        ),
    ):
        grade(submission, COURSE, limited, problems=[COURSE.problem("lr_schedule")])


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    every(
        3,
        [
            "child._limit = lambda limits: 1 / 0",
            "child._redirect = lambda *descriptors: 1 / 0",
            "child._UnpackedSubmission.__init__ = lambda *_: 1 / 0",
            "child._limit = lambda limits: os.kill(os.getpid(), 9)",
            "child._limit = lambda limits: os.write(3, b'x' * 100)",
        ],
    ),
)
def test_an_end_before_the_students_code_is_ours(broken, bare_with):
    """The process may end by an exception, an exit, a signal or an invalid answer."""
    with bare_with(broken) as running:
        made = Session(
            running, {"assignment/m.py": b"def f(): return 1"}, LIMITS, seed=0, forbidden=[]
        )
        try:
            with pytest.raises(
                GraderFault,
                match=(
                    r"^a test's process (ended \(.*\) before it ran any student code: "
                    r"|answered)"
                ),
            ):
                ask(made)
        finally:
            made.close()


@pytest.fixture
def bare_with(monkeypatch, tmp_path):
    """Start a worker without isolation after one line of Python has changed something in it."""

    @contextmanager
    def start(line):
        boot = shown.GRADER / "worker" / "boot.py"
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
def test_a_run_leaves_nothing_in_the_temporary_folder(right, quick_course, tmp_path):
    """Neither a sandbox folder nor torch's folder for compiled code remains."""
    done = graded_in_a_shell("true", right, "--course", quick_course, TMPDIR=str(tmp_path))
    assert (0, []) == (done.returncode, list(tmp_path.iterdir()))


# --- killed from outside --------------------------------------------------------------------------

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


@pytest.mark.slow
@pytest.mark.parametrize("level", every(2, ["bubblewrap", "landlock"]))
def test_what_the_kernel_kills_for_want_of_memory_is_no_crash_of_the_students(
    memory_group, root, level
):
    """The machine has less memory than a test may use, so the kernel kills the process.

    A process that waits for such a kill, and then tries to end in the same way, cannot.
    """
    if level == "landlock" and (reason := landlock.why_not()):
        pytest.skip(reason)
    processes, *files = map(str, memory_group)
    enter = ["sh", "-c", f'echo $$ > {processes} && exec "$@"', "sh"]
    command = [*enter, sys.executable, "-c", STARVED, *files, level]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    before, suicide, killed, again, after = done.stdout.splitlines() or [done.stderr] * 5
    assert [str(50 * 2**20)] * 2 == [before, after]
    refused = "RaisedPermissionError [Errno 1] Operation not permitted"
    assert [refused] * 2 == [suicide, again]
    assert re.match(
        r"GraderFault a test's process was killed from outside while it used [\d.]+ MiB of its 2 "
        r"GiB: ",
        killed,
    ), killed


# --- the sandbox from inside ----------------------------------------------------------------------


def test_the_zygote_is_what_a_zygote_has_to_be(sandbox):
    """The grader checks the zygote: process 1, an ordinary user, no capabilities, filtered."""
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
    """The process has no capability and no group, owns nothing, and cannot remove its filter."""
    source = """
        import os
        def f():
            lines = open("/proc/self/status").read().splitlines()
            status = dict(line.split(":\\t", 1) for line in lines)
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
    """Nothing of the grader's own environment, with its tokens and paths, is visible."""
    assert "PATH" in os.environ
    names = answer(sandbox, "import os\ndef f():\n    return sorted(os.environ)\n")
    ours = {
        "HOME",
        "USER",
        "TMPDIR",
        "LANG",
        "LD_LIBRARY_PATH",
        "OMP_NUM_THREADS",
        "PYTHONHASHSEED",
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
    """Each folder is on a read-only file system, whoever owns it."""
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
    """The files of /proc are read-only too."""
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
    """The zygote is not dumpable, so nobody inside the sandbox owns its files in /proc."""
    source = (
        "import os\ndef f(path):\n"
        "    return os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1)\n"
    )
    assert "PermissionError" == fault_name(sandbox, source, path)


def fault_name(sandbox, source, *args):
    """The name of the exception that f raises."""
    with session(sandbox, source) as made, pytest.raises(Raised) as caught:
        ask(made, *args)
    return caught.value.type_name


def test_there_is_no_network(sandbox):
    """There is only a loopback interface, which is down, and no socket that reaches a network."""
    source = "import socket\ndef f():\n    return [name for _, name in socket.if_nameindex()]\n"
    assert fault_name(sandbox, source) in ("OSError", "PermissionError")
    lines = answer(sandbox, "def f():\n    return open('/proc/net/dev').read().splitlines()[2:]\n")
    assert ["lo"] == [line.split(":")[0].strip() for line in lines]
    for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET"):
        assert "PermissionError" == fault_name(
            sandbox, f"import socket\ndef f():\n    socket.socket(socket.{family})\n"
        )


# --- system calls ---------------------------------------------------------------------------------

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
    """Every denied call fails: namespaces, keyrings, memory files, other processes, mounts, …"""
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
        "statmount",
        "listmount",
    } <= set(names)


def test_files_have_no_extended_attributes(sandbox):
    """The calls fail as on a file system without attributes."""
    numbers = sorted(MACHINE.attributes.values())
    got = answer(sandbox, SYSCALLS, [[number, 0, 0, 0, 0, 0] for number in numbers])
    assert [errno.ENOTSUP] * len(numbers) == got


def test_clone3_does_not_exist(sandbox):
    """A filter cannot read the flags of clone3; without it, the C library uses clone."""
    assert [errno.ENOSYS] == answer(sandbox, SYSCALLS, [[MACHINE.clone3, 0, 0]])


@pytest.mark.parametrize(
    "flag",
    [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000],
    ids=hex,
)
def test_clone_makes_no_namespace(flag, sandbox):
    """clone can still make processes."""
    assert [errno.EPERM] == answer(sandbox, SYSCALLS, [[MACHINE.clone, flag | 17, 0, 0, 0, 0]])
    assert (
        answer(
            sandbox,
            "import os\ndef f():\n    return os.waitpid(os.fork() or os._exit(5), 0)[1] >> 8\n",
        )
        == 5
    )


def test_sockets_are_local(sandbox):
    """Libraries use connected pairs of sockets internally."""
    assert [0] == answer(sandbox, SYSCALLS, [[MACHINE.socket, 1, 1, 0]])
    assert [errno.EPERM] * 4 == answer(
        sandbox, SYSCALLS, [[MACHINE.socket, family, 1, 0] for family in (2, 10, 16, 17)]
    )


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_filter_is_whole_instructions(machine):
    """The filter ends with a verdict, for each architecture that has a table."""
    for program in (seccomp.program(machine), seccomp.against_kills(machine)):
        assert 0 == len(program) % 8
        assert program.endswith(b"\x06\0\0\0\x00\x00\xff\x7f")


def test_another_machine_is_refused():
    """A filter with another architecture's numbers would be worse than none."""
    with pytest.raises(
        GraderFault,
        match=r"^no list of system calls for a vax processor: add one to grader\.sandbox\.seccomp$",
    ):
        seccomp.program("vax")


# --- what can be seen -----------------------------------------------------------------------------


def test_of_the_project_only_what_a_student_needs_can_be_seen(sandbox):
    """No other file of the project is visible.

    The search leaves out the packages, the standard library, the C library and the kernel's
    folders.
    """
    source = """
        import os
        def f():
            found = []
            for folder, folders, files in os.walk("/"):
                if folder == "/":
                    others = ("proc", "dev", "sys", "site", "python", "usr")
                    folders[:] = [n for n in folders if n not in others]
                found += [os.path.join(folder, n) for n in files if not n.endswith(".pyc")]
            return sorted(found)
    """
    root = shown.GRADER.parent
    grader = [
        f"/runtime/{path.relative_to(root)}"
        for room in ("worker", "shared")
        for path in (root / "grader" / room).glob("*.py")
    ]
    probes = [f"/course/{path.relative_to(root)}" for path in (root / "tests/probes").rglob("*.py")]
    tools = ("__init__", "forbidden_calls", "stand_in", "student", "watch_copies")
    kit = [f"/course/kit/{name}.py" for name in tools]
    theirs = [f"/tmp/submission/assignment/{name}.py" for name in ("__init__", "m")]
    expected = {*grader, *probes, *kit, *theirs}
    assert expected == set(answer(sandbox, source)) - {"/etc/ld.so.cache"}


def test_of_the_packages_only_those_that_are_allowed_can_be_seen(sandbox):
    """pytest, the grader's own libraries and the grader are not visible."""
    source = (
        "import os\ndef f():\n"
        "    return sorted(os.listdir('/site')), sorted(os.listdir('/python/lib'))\n"
    )
    packages, library = answer(sandbox, source)
    assert {path.name for path in shown.package_paths()} == set(packages)
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
    ["grader", "grader.shared.protocol", "grader.solutions.reference.linear", "tests.hidden",
     "tests.hidden.test_linear", "kit.expect", "kit.fixtures", "pytest", "_pytest", "msgspec",
     "rich", "typer", "hypothesis", "pip", "pluggy"],
)  # fmt: skip
def test_a_submission_cannot_import(module, sandbox):
    """The import fails, and the module is not among those that are already loaded."""
    source = (
        "import importlib, sys\ndef f(name):\n    assert name not in sys.modules\n"
        "    importlib.import_module(name)\n"
    )
    assert "ModuleNotFoundError" == fault_name(sandbox, source, module)


def test_no_path_of_the_graders_shows(sandbox):
    """No path is in sys.path, in torch's or Python's locations, or in the targets of mounts."""
    source = """
        import os, sys, torch
        def f():
            found = [sys.prefix, sys.base_prefix, sys.executable, torch.__file__, os.getcwd()]
            return [*sys.path, *found, *sys.argv]
    """
    allowed = ("/python", "/site", "/course", "/tmp", "/usr", "/runtime")
    assert [] == [
        p for p in answer(sandbox, source) if p and p.startswith("/") and not p.startswith(allowed)
    ]


# --- other ways to run the sandbox ----------------------------------------------------------------

SCRIPT = """
import sys
from grader.course import courses
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from kit.student import call
c = courses.load()
with Sandbox(c.tests, isolation=sys.argv[1], scratch_bytes=2**20) as sandbox:
    source = b"import os\\ndef f(): return os.getpid(), os.getuid(), sorted(os.listdir('/'))\\n"
    session = Session(sandbox, {"assignment/m.py": source}, c.limits, seed=0, forbidden=[])
    pid, uid, root = session.run(call, {"module": "m", "function": "f", "args": (), "kwargs": {}})
    session.close()
    facts = sandbox.facts
    rights = facts["uid"] == 0, facts["capabilities"] == 0, facts["seccomp"]
    print(sandbox.isolation, facts["pid"] == 1, *rights, "site" in root)
"""


@pytest.fixture(scope="module")
def bare():
    """A worker without isolation."""
    with Sandbox(COURSE.tests, isolation="none", scratch_bytes=MIB) as running:
        yield running


@contextmanager
def bare_session(bare, source):
    """A session of a package with an __init__.py, which replaces the course's."""
    sources = {"assignment/__init__.py": b"", "assignment/m.py": source}
    made = Session(bare, sources, LIMITS, seed=0, forbidden=[])
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_without_isolation_it_runs_and_says_so(bare):
    """A laptop without bubblewrap gives the same answers, and every report shows the level."""
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
    """The stubs next to the tests are not graded instead."""
    assert answer(bare, "def f():\n    return 1\n") == 1


@pytest.mark.slow
@NEEDS_ROOT
def test_an_ordinary_user_gets_the_same_box():
    """In a user namespace, the zygote is process 1, without capabilities and with the filter."""
    gets_the_same_box({})


def gets_the_same_box(environment):
    """Run SCRIPT as a user who owns nothing here; skip if that is impossible."""
    root = shown.GRADER.parent
    with as_an_ordinary_user() as words:
        done = subprocess.run(
            [*words, sys.executable, "-c", SCRIPT, "bubblewrap"],
            cwd=root,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=300,
        )
    if "the sandbox cannot be started" in done.stderr:
        pytest.skip(f"that user cannot start a sandbox here: {done.stderr.strip()[-300:]}")
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
    """A folder with a `bwrap` that claims an old version.

    It refuses the options that did not exist then, and otherwise runs the real one.
    """
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
@pytest.mark.parametrize("version", every(2, ["0.4.0", "0.6.0"]))
def test_an_old_bubblewrap_makes_the_same_box(version, tmp_path, monkeypatch):
    """The sandbox is equally strict: its writable folder is limited, and it has no namespaces."""
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
@pytest.mark.proof
@NEEDS_ROOT
def test_an_old_bubblewrap_makes_the_same_box_for_an_ordinary_user(tmp_path):
    """The filter replaces --disable-userns, and the worker checks that no namespace can be made."""
    for folder in [*tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    gets_the_same_box({"PATH": bubblewrap_of_age(tmp_path, "0.4.0")})


def test_a_bubblewrap_that_is_too_old_is_named(tmp_path, monkeypatch):
    """The message has its version, the required version and the missing option."""
    monkeypatch.setenv("PATH", bubblewrap_of_age(tmp_path, "0.3.1"))
    lacks = "it lacks --as-pid-1, --ro-bind-try. The sandbox needs 0.4.0 or later, first in PATH"
    with pytest.raises(SandboxUnavailable) as refusal:
        Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB)
    assert f"bubblewrap 0.3.1 ({tmp_path}/bwrap) is too old: {lacks}" == str(refusal.value)


@pytest.mark.slow
def test_a_zygote_that_hangs_is_gone_when_its_box_is_closed(monkeypatch):
    """This holds even if the zygote no longer reads its socket and another user started it."""
    monkeypatch.setattr("grader.sandbox.running_box.END_SECONDS", 1.0)
    hanging = Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=2**20)
    pid = hanging.host_pid
    os.kill(pid, signal.SIGSTOP)
    hanging.close()
    assert (
        not Path(f"/proc/{pid}").exists() or "Z (zombie)" in Path(f"/proc/{pid}/status").read_text()
    )


def test_what_student_code_prints_there_is_no_traceback(sandbox):
    """Only a traceback that Python itself prints gives a test's location; a flood is cut off."""
    source = """
        import os, threading, time

        LIE = b'x (most recent call first):\\n  File "/submission/assignment/l.py", line 1 in l\\n'

        def flood():
            while True:
                os.write(4, LIE)

        def f(floods):
            os.write(4, LIE)
            if floods:
                threading.Thread(target=flood, daemon=True).start()
            while True:
                time.sleep(0.02)
        """
    for floods in (False, True):
        with session(sandbox, source, wall_seconds=2.0) as made:
            with pytest.raises(TimedOut) as caught:
                ask(made, floods)
            assert floods or caught.value.where == "assignment/m.py in f"


# --- tests that only wait -------------------------------------------------------------------------

NOTHING_MORE = "it stopped doing anything: it sleeps, or waits for something that never happens"


@pytest.mark.parametrize(
    "wait",
    [
        "time.sleep(10**6)",
        "threading.Event().wait()",
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "os.read(os.pipe()[0], 1)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "os.fork() or time.sleep(10**6); os.wait()",
        "threading.Thread(target=time.sleep, args=(10**6,)).start(); threading.Event().wait()",
    ],
)
def test_a_test_that_only_waits_ends_early(sandbox, wait):
    """The test ends long before its wall-clock limit, and the message says where it waits."""
    source = f"import os, signal, threading, time\ndef f():\n    {wait}"
    started = time.monotonic()
    with session(sandbox, source, wall_seconds=100.0) as made:
        with pytest.raises(TimedOut, match=NOTHING_MORE) as caught:
            ask(made)
        assert time.monotonic() - started < 50
        stopped = "SIGSTOP" in wait
        assert caught.value.where == (None if stopped else "assignment/m.py in f")
        with pytest.raises(TimedOut, match=NOTHING_MORE):  # its time is used up
            ask(made)


@pytest.mark.parametrize(
    "work",
    [
        "while time.monotonic() < end: pass",
        "while time.monotonic() < end: time.sleep(0.01)",
        "os.fork() or spin(end) or os._exit(0); os.wait()",
        "t = threading.Thread(target=spin, args=(end,)); t.start(); t.join()",
    ],
)
def test_a_test_that_works_or_wakes_up_goes_on(sandbox, work):
    """A test that uses some CPU time now and then does not count as asleep."""
    source = (
        "import os, threading, time\n"
        "def spin(end):\n    while time.monotonic() < end: pass\n"
        f"def f():\n    end = time.monotonic() + 1.5\n    {work}\n    return 1"
    )
    with session(sandbox, source, patience=Patience(0.4)) as made:
        assert 1 == ask(made)


def test_patience_gets_shorter(sandbox):
    """The tests of a submission share a budget of sleep: only the first may sleep for seconds."""
    patience = Patience()
    for _ in range(7):
        with (
            session(sandbox, "import time\ndef f(): time.sleep(10**6)", patience=patience) as made,
            pytest.raises(TimedOut, match=NOTHING_MORE),
        ):
            ask(made)
    assert patience.seconds == 0.08
