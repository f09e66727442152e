"""Which problems' tests may share a process."""

from itertools import pairwise

import pytest

from grader.course import courses
from grader.grading.job import Job
from grader.grading.local_student import LocalBox, LocalSession
from grader.grading.sandboxed_student import Budgets, Students
from grader.grading.static_checks import Checked

COURSE = courses.load()


@pytest.fixture
def students():
    """The students of a grade of the reference solution in this process."""
    box = LocalBox()
    sources = {p.path: COURSE.reference_of(p).encode() for p in COURSE.problems}
    job = Job(
        sources=sources,
        course=COURSE,
        sandbox=box,
        problems=COURSE.problems,
        device="cpu",
        seed=0,
        progress=None,
        explain=False,
        until_one_fails=False,
        fresh=False,
        open_session=LocalSession,
    )
    yield Students(job, Checked({}, frozenset(), {}), Budgets(COURSE, "cpu"))
    box.close()


def test_a_process_serves_one_module_under_one_set_of_rules(students):
    """Problems share a process if they have the same module, forbidden names and limits."""

    def rules(problem):
        return problem.module, problem.forbidden, problem.by_hand, COURSE.limits_of(problem)

    shared = set()
    for one, other in pairwise(COURSE.problems):
        first = students.for_test(one, "test_one")
        assert students.go_on_with(one)
        if students.go_on_with(other):
            shared.add((one.id, other.id))
            assert first._session is students.for_test(other, "test_other")._session
        else:
            assert first._session is not students.for_test(other, "test_other")._session
        assert ((one.id, other.id) in shared) == (rules(one) == rules(other))
    assert ("roofline", "napkin_math") in shared
    assert ("flop_formulas", "flop_counter") not in shared


def test_no_process_goes_on_after_its_end(students):
    """After `end`, the next test gets a session of its own."""
    problem = COURSE.problem("linear")
    first = students.for_test(problem, "test_one")
    assert first._session is students.for_test(problem, "test_two")._session
    students.end()
    assert first._session is not students.for_test(problem, "test_three")._session
