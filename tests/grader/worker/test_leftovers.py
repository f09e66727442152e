"""Tests share a process unless they leave something behind in it."""

import pytest

from grader.base.errors import Crashed, TimedOut
from grader.sandbox.time_budgets import Budget, Patience
from tests.grader.in_the_sandbox import ask, session

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]
COUNTS = """
    import atexit, ctypes, functools, gc, itertools, locale, os, resource, signal, socket, sys
    import threading, time, warnings
    import numpy as np
    import torch, torch.utils.flop_counter

    calls = itertools.count(1)  # the one kind of state of a module that is not looked at

    def count():
        return next(calls)

    number = 0
    table = {"a": [1]}
    weights = torch.zeros(2)

    def default(x=[], *, y=[]):
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
            return operation(*args, **(kwargs or {}))

    class Endless(list):
        def __iter__(self):
            while True:
                yield 1

        def __getattr__(self, name):
            return Endless()

    endless = Endless()
    layer = Layer()

    def leave(which):
        global number
"""


def leftovers(*lines):
    """A module whose `leave(n)` runs the n-th of these lines; its `count` counts its calls."""
    ways = [f"        if which == {n}:\n            {line}\n" for n, line in enumerate(lines)]
    return COUNTS + "".join(ways)


def test_tests_share_a_process_that_they_leave_as_it_was(sandbox):
    """The module is imported once; files are removed, and the working folder is restored."""
    source = leftovers("open('file', 'w').write('x'); os.mkdir('a'); os.chdir('a'); return 1")
    with session(sandbox, source) as made:
        made.begin_test(0)
        assert (1, False) == (ask(made, function="count"), made.is_shared)
        assert 1 == ask(made, 0, function="leave")
        made.begin_test(0)
        assert (2, True) == (ask(made, function="count"), made.is_shared)
        assert 1 == ask(made, 0, function="leave"), "the folder `a` is still there"


# What leaves everything as it was.
KEPT = [
    "cached(3)",
    "layer(torch.zeros(1))",
    "torch.optim.SGD([torch.zeros(1)], lr=1).step()",
    "with Mode(): torch.zeros(1)",
    "number = 0",
    "table['a'] = table.pop('a')",
]


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
    "default.__kwdefaults__['y'].append(1)",
    "add()",
    "Layer.made += 1",
    "Layer.forward = lambda self, x: 2 * x",
    "layer.last = 1",
    "leave.calls = 1",
    "inner.__defaults__ = (1,)",
]
MORE = ["torch.utils.deterministic.fill_uninitialized_memory = False"]  # it imports the compiler
MORE += ["torch.use_deterministic_algorithms(False)"]  # so does this


@pytest.mark.parametrize("left", [LEFT, pytest.param(MORE, marks=pytest.mark.proof)])
def test_what_a_test_leaves_ends_its_process(sandbox, left):
    """Two tests share one only if nothing of the student's modules or of it has changed."""
    with session(sandbox, leftovers(*KEPT, *left)) as made:
        made.begin_test(0)
        calls = ask(made, function="count")
        for which, line in enumerate(KEPT + left):
            ask(made, which, function="leave")
            made.begin_test(0)
            is_shared = line in KEPT
            calls = calls * is_shared + 1
            assert (calls, is_shared) == (ask(made, function="count"), made.is_shared), line


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
        end = time.process_time() + 0.1
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
    assert budget.wall_used >= 0.1
    assert budget.cpu_used >= 0.1


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
