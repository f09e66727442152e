"""Solutions with one mistake each, written by others than the authors of grader/solutions/mistakes: no false name is given.

A file of strangers/<problem>/ is a fragment like a variant, whose docstring says what is wrong with it. A line `is: NAME`
names the known mistake that is the same one in other words. Any other name would be false.
"""

import ast
import re
from pathlib import Path

import pytest

from grader import course as courses
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.proof.validate import sources_in
from grader.solutions import fragments, mistakes
from grader.submission import Submission

STRANGERS = Path(__file__).parent / "strangers"
COURSE = courses.load()
PROBLEMS = [problem for problem in COURSE.problems if (STRANGERS / problem.id).is_dir()]
LEAST = 190


def truly(fragment):
    """The names of the known mistakes that a stranger's solution makes; usually one or none."""
    docstring = ast.get_docstring(ast.parse(fragment.source)) or ""
    return [
        name.strip()
        for line in re.findall(r"^is: (.*)$", docstring, re.M)
        for name in line.split(",")
    ]


def names_given(problem, fragment, box):
    """The summaries of the known mistakes that a report names, and the tests that failed."""
    sources = sources_in(COURSE.reference)
    sources[problem.path] = fragment.applied_to(sources[problem.path].decode()).encode()
    submission = Submission(fragment.name, sources, [])
    (result,) = grade(submission, COURSE, box, problems=[problem], session=LocalSession).problems
    failed = [test for test in result.tests if test.status not in ("passed", "deferred")]
    return {test.mistake for test in failed if test.mistake}, failed


@pytest.fixture(scope="module")
def box():
    """Where the solutions are imported from: they are ours."""
    made = LocalBox()
    yield made
    made.close()


def test_there_are_enough():
    """Of every problem on a CPU some, and what they say they are is known."""
    assert sum(len(fragments.load(STRANGERS, problem.id)) for problem in PROBLEMS) >= LEAST
    for problem in PROBLEMS:
        known = {mistake.name for mistake in mistakes.load(COURSE.mistakes, problem.id)}
        assert [] == [
            (f.name, name)
            for f in fragments.load(STRANGERS, problem.id)
            for name in truly(f)
            if name not in known
        ]


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
def test_no_name_is_false(problem, box, record_property):
    """Every one of them fails a test, and where a mistake is named it is the one."""
    said = {mistake.name: mistake.says for mistake in mistakes.load(COURSE.mistakes, problem.id)}
    false, passed, named = [], [], 0
    strangers = fragments.load(STRANGERS, problem.id)
    for fragment in strangers:
        given, failed = names_given(problem, fragment, box)
        true = {said[name] for name in truly(fragment)}
        false += [f"{fragment.name}: {name}" for name in given - true]
        passed += [] if failed else [fragment.name]
        named += bool(given)
    print(f"{problem.id}: {named} of {len(strangers)} are named")
    record_property("named", f"{named} of {len(strangers)}")
    assert not false, "\n".join(false)
    assert not passed, "\n".join(passed)
