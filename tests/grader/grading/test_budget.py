"""The time of a submission's tests is one, however often the tests run."""

import pytest

from grader.base.errors import Status
from grader.course.courses import SPARE_SHARE
from grader.grading import plugin, sandboxed_student
from grader.grading.grade import grade
from grader.grading.sandboxed_student import Budgets
from grader.sandbox.box import Sandbox
from grader.submission.submissions import Submission
from tests.grader.in_the_sandbox import COURSE, POINTS
from tests.grader.test_attacks import ALL

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("budget")]  # for its sandbox
PROBLEM = COURSE.problem("storage_views")  # has more than 15 tests
SECONDS = 0.02
# The first call of every test takes its time, and in a used process some answers are wrong.
SLOW = f"""
import time

@functools.cache
def take_time(test):
    end = time.process_time() + {SECONDS}
    while time.process_time() < end:
        pass

def slowly(function):
    @functools.wraps(function)
    def called(*args, **kwargs):
        take_time(torch.initial_seed())  # which differs from test to test
        return function(*args, **kwargs)
    return called

for name in {PROBLEM.functions!r}:
    globals()[name] = slowly(globals()[name])
"""


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox.of(COURSE, isolation="bubblewrap") as running:
        yield running


@pytest.fixture
def graded(sandbox, monkeypatch):
    """Grades the submission; returns its result and the budgets that were made for it."""

    def run(course=COURSE):
        made = []

        def kept(*arguments):
            made.append(sandboxed_student.Budgets(*arguments))
            return made[-1]

        monkeypatch.setattr(plugin, "Budgets", kept)
        attack = next(one.made for one in ALL if one.name == "two_answers")
        source = f"{COURSE.reference_of(PROBLEM)}\n\n{attack}\n{SLOW}".encode()
        submission = Submission("slow", {PROBLEM.path: source}, [])
        result = grade(submission, course, sandbox, problems=[PROBLEM], explain=False)
        sandbox.wait_until_ready()  # the last process is charged now
        return result.problems[0], made

    return run


def test_both_passes_are_charged(graded):
    """What is set aside pays for the first pass, and the problem for the second."""
    result, (made,) = graded()
    assert len(result.tests) > 15
    least = 0.9 * SECONDS * len(result.tests)
    mine = made.of(PROBLEM)
    assert SPARE_SHARE * COURSE.limits.submission_seconds - mine.spare.cpu_seconds >= least
    assert mine.cpu_used >= least


def test_both_passes_have_the_time_of_one(graded, monkeypatch):
    """A submission that gives two answers gets no second budget for its second pass."""
    monkeypatch.setattr(sandboxed_student, "SPARE_SHARE", 0.0)
    _, (made,) = graded()
    both = made.of(PROBLEM).cpu_used
    assert both >= 1.8 * SECONDS * 15
    share = made.of(PROBLEM).cpu_seconds / COURSE.limits.submission_seconds
    result, (made,) = graded(COURSE.limited(seconds=4 * 0.7 * both / share))
    assert Status.TIMEOUT in {test.status for test in result.tests}


def test_the_time_of_a_problem_does_not_depend_on_what_else_is_graded():
    """It is a share of the course's points; repeated requests return the same budget."""
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
