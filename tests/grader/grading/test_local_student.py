"""Our own solutions run in the grader's process as a submission runs in a sandbox."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from grader.base.errors import Crashed, NotAttempted, StudentFault, TimedOut
from grader.course import courses
from grader.grading.local_student import LocalBox, LocalSession
from kit.student import watching_generators

ROOT = Path(__file__).resolve().parents[3]


def calls(student):
    """A probe that calls the solution's function."""
    return student.m.f()


def test_a_stub_is_one_also_after_another_solution():
    """The line that raised is read from the present solution, not from the one before it."""
    box = LocalBox()
    wrong = {"assignment/m.py": b"def f():\n    return 1 // 0"}
    stub = {"assignment/m.py": b"def f():\n    raise NotImplementedError"}
    with pytest.raises(StudentFault, match="division"):
        LocalSession(box, wrong).run(calls, {})
    with pytest.raises(NotAttempted):
        LocalSession(box, stub).run(calls, {})
    box.close()


def test_a_solution_that_hangs_is_ended():
    """It has a test's CPU time, also if it catches every exception."""
    box = LocalBox()
    hangs = b"def f():\n    while True:\n        try:\n            while True: pass\n"
    hangs += b"        except ZeroDivisionError: pass\n"
    limits = msgspec.structs.replace(courses.load().limits, cpu_seconds=1)
    with pytest.raises(TimedOut, match="it took more than 1 s of CPU time"):
        LocalSession(box, {"assignment/m.py": hangs}, limits).run(calls, {})
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    box.close()


def states_around_the_import(student):
    """A probe that names the module while it watches the generators."""
    with watching_generators() as changed:
        assert student.m.seeded
    return changed


def test_a_module_that_seeds_generators_changes_none_for_a_test():
    """Most seed torch at their top; where a test first names the module is not theirs to know."""
    box = LocalBox()
    seeds = b"import random, numpy, torch\nrandom.seed(0); numpy.random.seed(0)\n"
    seeds += b"seeded = torch.manual_seed(0)\n"
    assert LocalSession(box, {"assignment/m.py": seeds}).run(states_around_the_import, {}) == []
    box.close()


def odd(student) -> list[tuple[int, int]]:
    """A probe whose annotation is wrong."""
    return [(1, 2, 3)]


def test_an_answer_has_the_type_that_its_probe_promises():
    """The sandbox refuses any other answer, so a draft must not accept it."""
    box = LocalBox()
    with pytest.raises(Crashed, match="never returns"):
        LocalSession(box, {"assignment/m.py": b""}).run(odd, {})
    box.close()


@pytest.mark.proof
def test_the_hidden_tests_pass_in_plain_pytest():
    """No probe changes its inputs, which are copies only where a grader sends them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/hidden"]
    options = ["--ignore-glob", "*/test_cuda.py", "--package", "grader.solutions.reference"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
