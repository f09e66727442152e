"""The time of a submission's tests is one, however often the tests run."""

import pytest

from grader.base.errors import Status
from grader.course import courses
from grader.course.courses import SPARE_SHARE
from grader.grading import pytest_plugin, sandboxed_student
from grader.grading.grade import grade
from grader.grading.sandboxed_student import Budgets
from grader.sandbox.sandbox import Sandbox
from grader.submission.submissions import Submission
from tests.grader import small_courses
from tests.grader.in_the_sandbox import COURSE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("budget")]  # for its sandbox
TESTS, SECONDS = 4, 0.05
TEST = """
def test_{}(student):
    expect.value(student.activations.relu(1), 1, of="relu")
"""
# Each call takes its time, and in a used process the answers are wrong.
SLOW = f"""
import functools, time

@functools.cache
def calls():
    return []

def relu(x):
    calls().append(x)
    end = time.process_time() + {SECONDS}
    while time.process_time() < end:
        pass
    return x if len(calls()) == 1 else 0
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course without torch, whose first problem has this many tests."""
    folder = small_courses.with_lists(tmp_path_factory.mktemp("course"))
    tests = "".join(map(TEST.format, range(TESTS)))
    (folder / "tests/hidden/relu/test_hidden.py").write_text(f"from kit import expect\n{tests}")
    return courses.load(folder)


@pytest.fixture(scope="module")
def sandbox(course):
    with Sandbox.of(course, isolation="bubblewrap") as running:
        yield running


@pytest.fixture
def graded(course, sandbox, monkeypatch):
    """Grades the submission; returns its tests and the budget that was made for its problem."""
    problem, made = course.problem("relu"), []

    def kept(*arguments):
        made.append(sandboxed_student.Budgets(*arguments))
        return made[-1]

    def run(course=course):
        made.clear()
        monkeypatch.setattr(pytest_plugin, "Budgets", kept)
        submission = Submission("slow", {problem.path: SLOW.encode()}, [])
        result = grade(submission, course, sandbox, problems=[problem], explain=False)
        sandbox.wait_until_ready()  # the last process is charged now
        (only,) = made
        return result.problems[0].tests, only.of(problem)

    return run


def test_both_passes_are_charged_and_have_the_time_of_one(course, graded, monkeypatch):
    """What is set aside pays for the first pass, and the problem for the second.

    A submission that gives two answers gets no second budget for its second pass.
    """
    tests, mine = graded()
    assert TESTS == len(tests)
    least, seconds = 0.9 * SECONDS * TESTS, course.limits.submission_seconds
    spare_used = SPARE_SHARE * seconds - mine.spare.cpu_seconds
    assert spare_used >= least
    assert mine.cpu_used >= least
    both, share = spare_used + mine.cpu_used, mine.cpu_seconds / seconds
    monkeypatch.setattr(sandboxed_student, "SPARE_SHARE", 0.0)
    tests, _ = graded(course.limited(seconds=4 * 0.7 * both / share))
    assert Status.TIMEOUT in {test.status for test in tests}


def test_the_time_of_a_problem_does_not_depend_on_what_else_is_graded():
    """It is a share of the course's points; repeated requests return the same budget."""
    problem, budgets = COURSE.problem("lr_schedule"), Budgets(COURSE, "cpu")
    budget = budgets.of(problem)
    seconds = 720 * 2 / sum(one.points for one in COURSE.problems)
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
