"""The time of a test: its limits, who is charged, and tests that only wait."""

import subprocess
import sys
import time

import pytest

from grader.base.errors import Crashed, Raised, Status, TimedOut
from grader.report import json_report
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.time_budgets import LEAST_PATIENCE, Budget, Meter, Patience, Spare
from tests.grader.in_the_sandbox import COURSE, LIMITS, ask, fault, session
from tests.grader.processes import started
from tests.grader.sampling import every

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("time")]  # for the sandbox
# What a student's module may do for some seconds: of processor time, or asleep.
WORK = """
    import os, time
    def f(seconds):
        time.sleep(seconds)
    def fails(seconds):
        time.sleep(seconds)
        raise ValueError
    def spins(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end: pass
    def busy():
        spins(1000)
    def exits(seconds):
        spins(seconds)
        os._exit(3)
    def shares(seconds):  # with children
        for _ in range(2):
            child = os.fork()
            spins(seconds / 2)
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
    def abandons(seconds):  # children that it does not wait for
        reading, writing = os.pipe()
        for _ in range(2):
            if os.fork() == 0:
                spins(seconds / 2)
                os.write(writing, b".")
                os._exit(0)
        os.read(reading, 1), os.read(reading, 1)
    def leaves(count):
        for number in range(count):
            os.mkdir(f"/tmp/{number}")
"""


@pytest.fixture
def sandbox(plain):
    return plain("bubblewrap")


def test_the_calls_of_a_test_share_a_limit_of_wall_time(sandbox):
    """Dozing uses hardly any CPU time but is ended too, and the message names the function."""
    source = "import time\ndef g(): pass\ndef f():\n    while True: time.sleep(0.02)\n"
    with session(sandbox, source, wall_seconds=1.0) as made:
        ask(made, function="g")
        for function in "fg":
            with pytest.raises(TimedOut, match=r"^no answer within 1 s, the limit of") as caught:
                ask(made, function=function)
    assert (Status.TIMEOUT, "assignment/m.py in f") == (caught.value.status, caught.value.where)


def test_removing_what_a_test_left_behind_is_charged(sandbox):
    """On some disks it takes longer than to make it; a repeated test is charged, too."""
    budget = Budget(100.0, 100.0, spare=Spare(100.0, 100.0))
    with session(sandbox, WORK, budget=budget) as made:
        ask(made, 500, function="leaves")
        made.begin_again()
        of_the_call = budget.spare.wall_seconds
        sandbox.wait_until_ready()
        assert budget.spare.wall_seconds < of_the_call
        ask(made, 500, function="leaves")
    of_the_call = budget.wall_used
    sandbox.wait_until_ready()
    assert budget.wall_used > of_the_call


def test_only_the_students_calls_are_charged(sandbox, monkeypatch):
    """Waiting for a sandbox, its start, and the test's own work between calls are not charged."""
    clock, later = time.monotonic, []
    monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(later))
    for name in ("wait_until_ready", "spawn"):
        real = getattr(Sandbox, name)
        slowed = lambda *a, real=real, **k: (later.append(10), real(*a, **k))[1]  # noqa: E731
        monkeypatch.setattr(Sandbox, name, slowed)
    budget = Budget(cpu_seconds=5.0, wall_seconds=100.0)
    with session(sandbox, WORK, budget=budget) as made:
        for _ in range(2):
            ask(made, 0.1)
            later.append(10)  # the work of an oracle
    sandbox.wait_until_ready()
    assert len(later) > 6
    assert 0.1 < budget.wall_used < 10
    assert budget.cpu_used < 1.0


@pytest.mark.proof
def test_eight_graders_at_once_cost_nobody_a_point(tmp_path):
    """Eight graders probably outnumber this machine's CPUs, and each gives full marks."""
    command = [sys.executable, "-m", "grader", "grade", COURSE.reference]
    command += ["--only", "lr_schedule", "--only", "linear"]
    files, nowhere = [tmp_path / f"{i}.json" for i in range(8)], subprocess.DEVNULL
    options = {"cwd": COURSE.root, "stdout": nowhere, "stderr": nowhere}
    running = [started([*command, "--json", f], **options) for f in files]
    assert [0] * 8 == [process.wait(600) for process in running]
    results = [json_report.parse(file.read_text()) for file in files]
    points = sum(COURSE.problem(name).points for name in ("lr_schedule", "linear"))
    assert {(points, points)} == {(result.score, result.max_score) for result in results}


def test_a_problem_that_is_repeated_keeps_to_its_time():
    """What is set aside pays for the first pass as far as it goes; the problem pays the rest."""
    budget = Budget(cpu_seconds=10, wall_seconds=40, spare=Spare(3, 12))
    budget.charge(cpu=5, wall=11)
    budget.begin_again()
    assert (2, 0) == (budget.cpu_used, budget.wall_used)
    assert (0, 1) == (budget.spare.cpu_seconds, budget.spare.wall_seconds)
    budget.charge_attempt(cpu=1, wall=2)
    assert (3, 1) == (budget.cpu_used, budget.wall_used)
    with_cuda = Budget(10, 10, free_seconds=5)  # its start is free
    with_cuda.charge(cpu=3, wall=6)
    assert (with_cuda.cpu_left, with_cuda.wall_left) == (10, 9)


def test_tests_share_what_their_problem_has_of_the_processor(sandbox):
    """A test is stopped when it is used up, and the next one does not start; sleep uses none."""
    budget = Budget(cpu_seconds=1.5, wall_seconds=100.0)
    with session(sandbox, WORK, budget=budget) as made:
        ask(made, 0.8)
    of_a_test = "^it used 1 s of processor time, the limit of a test$"
    with session(sandbox, WORK, budget=budget, cpu_seconds=1, wall_seconds=600.0) as made:
        for call in ({"function": "busy"}, {}):
            with pytest.raises(TimedOut, match=of_a_test) as caught:
                ask(made, **call)
    assert (Status.TIMEOUT, "assignment/m.py in busy") == (caught.value.status, caught.value.where)
    assert 0.5 < budget.cpu_used < 1.4  # the kernel counts roughly
    meter = Meter(LIMITS, budget)
    meter.keep_to_the_budget(with_new_child=True)
    assert meter.cpu_limit == meter.begin_child().cpu_seconds == 1
    budget.charge(cpu=1.0)
    used_up = "the tests of its problem had used up their 2 s of processor time before this test"
    said = fault(sandbox, TimedOut, WORK, 0.0, budget=budget)[1]
    assert said == f"assignment/m.py in busy ran out of time first: {used_up} began"


def test_tests_share_what_their_problem_has_by_the_clock(sandbox):
    """Code that sleeps forever in every test cannot delay a grade for hours."""
    budget = Budget(cpu_seconds=100.0, wall_seconds=1.0)
    budget.charge(wall=0.5)
    used_up = "no answer before the time for all tests of its problem was used up"
    assert used_up == fault(sandbox, TimedOut, WORK, 100.0, budget=budget)[1]
    said = fault(sandbox, TimedOut, WORK, 0.0, budget=budget)[1]
    assert " in f ran out of time first: the tests of its problem had used up their 1 s be" in said
    budget.begin_again()
    budget.charge(wall=1.0)
    said = fault(sandbox, TimedOut, WORK, 0.0, budget=budget)[1]
    assert said.startswith("the tests of its problem had used up their 1 s before")


@pytest.mark.parametrize(("function", "seconds"), [("abandons", 0.2), ("shares", 0.1)])
def test_processes_that_it_starts_are_charged_as_well(sandbox, function, seconds):
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0)
    with session(sandbox, WORK, budget=budget) as made:
        ask(made, seconds, function=function)
    sandbox.wait_until_ready()
    assert 0.19 <= budget.cpu_used < 1.0


def test_only_the_attempt_that_is_repeated_does_not_count(sandbox):
    """A test that sleeps in a shared process frees no CPU time of the tests before it."""
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0, spare=Spare(9.0, 9.0))
    with session(sandbox, WORK, budget=budget) as made:
        for _ in range(3):
            made.begin_test(0)
            ask(made, 0.15, function="spins")
        made.begin_test(0)
        wall_used = budget.wall_used
        with pytest.raises(Raised):
            ask(made, 0.5, function="fails")
        made.begin_again()
        assert not made.is_shared
        assert budget.wall_used == wall_used > 0.3
        assert 9.0 - budget.spare.wall_seconds >= 0.5
        ask(made, 0.0)
    sandbox.wait_until_ready()
    assert 0.4 < budget.cpu_used < 0.9
    assert budget.spare.cpu_seconds <= 9.0


@pytest.mark.parametrize(("end", "seconds"), every(2, [("exits", 0.4), ("spins", 100)]))
def test_an_attempt_that_ends_its_shared_process_does_not_count(sandbox, end, seconds):
    """It is repeated in a process of its own, and what is set aside pays for the attempt."""
    budget = Budget(cpu_seconds=60.0, wall_seconds=60.0, spare=Spare(60.0, 60.0))
    with session(sandbox, WORK, budget=budget, cpu_seconds=2) as made:
        ask(made, 0.12, function="spins")
        made.begin_test(0)
        wall_used = budget.wall_used
        with pytest.raises((TimedOut, Crashed)):
            ask(made, seconds, function=end)
        made.begin_again()
        assert budget.wall_used == wall_used > 0.05
        ask(made, 0.12, function="spins")
    sandbox.wait_until_ready()
    assert 0.2 < budget.cpu_used < 0.6
    assert 60.0 - budget.spare.cpu_seconds >= min(seconds, 1.0)


def test_a_process_that_cannot_be_shared_takes_no_time_from_the_next_test(sandbox):
    """What an earlier test left behind may run while the process is checked."""
    source = """
        import gc, time
        def f():
            gc.callbacks.append(lambda *_: time.sleep(0.25))
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
    assert budget.wall_used < 1.2  # the check takes 1.5 s


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
    source = f"import os, signal, threading, time\ndef f():\n    {wait}"
    with session(sandbox, source, wall_seconds=100.0, patience=Patience(0.1)) as made:
        with pytest.raises(TimedOut, match=NOTHING_MORE) as caught:
            ask(made)
        assert caught.value.where == (None if "SIGSTOP" in wait else "assignment/m.py in f")
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
    source = "import os, threading, time\ndef spin(end):\n    while time.monotonic() < end: pass\n"
    source += f"def f():\n    end = time.monotonic() + 0.3\n    {work}\n    return 1"
    with session(sandbox, source, patience=Patience(0.12)) as made:
        assert 1 == ask(made)


def test_patience_gets_shorter(sandbox):
    """The tests of a submission share a budget of sleep: only the first may sleep for seconds."""
    patience = Patience(0.25)
    for left in (0.125, LEAST_PATIENCE, LEAST_PATIENCE):
        source = "import time\ndef f(): time.sleep(10**6)"
        assert NOTHING_MORE in fault(sandbox, TimedOut, source, patience=patience)[1]
        assert patience.seconds == left
    assert Patience().seconds == 3.0
