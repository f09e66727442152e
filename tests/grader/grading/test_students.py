"""Students in a sandbox and in the grader's process: shared processes, and the same endings."""

import signal
import sys
from pathlib import Path

import msgspec
import pytest

from grader.base.errors import Crashed, NotAttempted, StudentFault, TimedOut
from grader.course import courses
from grader.grading.grading_job import Job
from grader.grading.local_student import LocalSession
from grader.grading.sandboxed_student import Budgets, Students
from kit.student import watching_generators
from tests.grader.processes import ran

COURSE = courses.load()


@pytest.fixture
def students(box):
    """The students of a grade of the reference solution in this process."""
    sources = {p.path: COURSE.reference_of(p).encode() for p in COURSE.problems}
    job = Job(
        sources=sources, course=COURSE, sandbox=box, problems=COURSE.problems, device="cpu",
        seed=0, progress=None, explain=False, until_one_fails=False, fresh=False,
        open_session=LocalSession,
    )  # fmt: skip
    return Students(job, Budgets(COURSE, "cpu"))


def test_a_process_serves_one_problem_until_its_end(students):
    one, other = COURSE.problem("roofline"), COURSE.problem("napkin_math")  # of one module
    first = students.for_test(one, "test_one")
    assert first._session is students.for_test(one, "test_two")._session
    second = students.for_test(other, "test_three")
    assert first._session is not second._session
    students.end()
    assert second._session is not students.for_test(other, "test_four")._session


# --- our own solutions run in the grader's process as a submission runs in a sandbox --------------


ROOT = Path(__file__).resolve().parents[3]


def calls(student):
    return student.m.f()


def test_a_stub_is_one_also_after_another_solution(box):
    """The line that raised is read from the present solution, not from the one before it."""
    wrong = {"assignment/m.py": b"def f():\n    return 1 // 0"}
    stub = {"assignment/m.py": b"def f():\n    raise NotImplementedError"}
    with pytest.raises(StudentFault, match="division"):
        LocalSession(box, wrong).run(calls, {})
    with pytest.raises(NotAttempted):
        LocalSession(box, stub).run(calls, {})


def test_a_solution_that_hangs_is_ended(box):
    """It has a test's CPU time, also if it catches every exception."""
    hangs = b"def f():\n    while True:\n        try:\n            while True: pass\n"
    hangs += b"        except ZeroDivisionError: pass\n"
    limits = msgspec.structs.replace(courses.load().limits, cpu_seconds=0.2)
    with pytest.raises(TimedOut, match=r"it took more than 0\.2 s of CPU time"):
        LocalSession(box, {"assignment/m.py": hangs}, limits).run(calls, {})
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def states_around_the_import(student):
    """A probe that names the module while it watches the generators."""
    with watching_generators() as changed:
        assert student.m.seeded
    return changed


def test_a_module_that_seeds_generators_changes_none_for_a_test(box):
    """Most seed torch at their top; where a test first names the module is not theirs to know."""
    seeds = b"import random, numpy, torch\nrandom.seed(0); numpy.random.seed(0)\n"
    seeds += b"seeded = torch.manual_seed(0)\n"
    assert LocalSession(box, {"assignment/m.py": seeds}).run(states_around_the_import, {}) == []


def odd(student) -> list[tuple[int, int]]:
    """A probe whose annotation is wrong."""
    return [(1, 2, 3)]


def test_an_answer_has_the_type_that_its_probe_promises(box):
    """The sandbox refuses any other answer, so a draft must not accept it."""
    with pytest.raises(Crashed, match="never returns"):
        LocalSession(box, {"assignment/m.py": b""}).run(odd, {})


@pytest.mark.proof
def test_the_hidden_tests_pass_in_plain_pytest():
    """No probe changes its inputs, which are copies only where a grader sends them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/hidden"]
    options = ["--ignore-glob", "*/test_cuda.py", "--package", "grader.solutions.reference"]
    done = ran([*command, *options], cwd=ROOT)
    assert done.returncode == 0, done.stdout
