"""Solutions by outside authors, with one mistake each: the grader never names a wrong mistake.

A stranger's `same_as` gives the known mistakes that are the same, only described in other words.
The grader may report no other name.
"""

import pytest

from grader.course import courses
from grader.course.courses import sources_in
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.solutions import mistakes
from grader.submission.submissions import Submission
from tests.grader import strangers

COURSE = courses.load()
PROBLEMS = [problem for problem in COURSE.problems if problem.id in strangers.PROBLEMS]
LEAST = 250


def names_given(problem, stranger, box):
    """Grade an outside solution; return its named mistakes' summaries and its failed tests."""
    sources = sources_in(COURSE.reference)
    sources[problem.path] = stranger.applied_to(sources[problem.path].decode()).encode()
    submission = Submission(stranger.name, sources, [])
    (result,) = grade(submission, COURSE, box, problems=[problem], session=LocalSession).problems
    failed = [test for test in result.tests if test.status not in ("passed", "deferred")]
    return {test.mistake for test in failed if test.mistake}, failed


@pytest.fixture(scope="module")
def box():
    """Run the solutions in this process, without a sandbox: they are our own code."""
    made = LocalBox()
    yield made
    made.close()


def test_there_are_enough():
    """There are enough solutions, each changes its problem, and `same_as` names known mistakes."""
    assert sum(len(strangers.load(problem.id)) for problem in PROBLEMS) >= LEAST
    for problem in PROBLEMS:
        known = {mistake.name for mistake in mistakes.load(COURSE.mistakes, problem.id)}
        reference = COURSE.reference_of(problem)
        for stranger in strangers.load(problem.id):
            assert stranger.applied_to(reference) != reference, stranger.name
            assert set(stranger.same_as) <= known, stranger.name


@pytest.mark.proof
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
def test_no_name_is_false(problem, box, record_property):
    """Each solution fails a test, and any mistake that is named is the right one."""
    said = {mistake.name: mistake.says for mistake in mistakes.load(COURSE.mistakes, problem.id)}
    false, passed, named = [], [], 0
    tried = strangers.load(problem.id)
    for stranger in tried:
        given, failed = names_given(problem, stranger, box)
        true = {said[name] for name in stranger.same_as}
        # A report that names two mistakes is right if one of them is.
        wrong = [text for text in given if not true & set(text.split(" Or: "))]
        false += [f"{stranger.name}: {text}" for text in wrong]
        passed += [] if failed else [stranger.name]
        named += bool(given)
    print(f"{problem.id}: {named} of {len(tried)} are named")
    record_property("named", f"{named} of {len(tried)}")
    assert not false, "\n".join(false)
    assert not passed, "\n".join(passed)
