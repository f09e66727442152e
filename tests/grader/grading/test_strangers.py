"""Solutions by outside authors, with one mistake each: the grader never names a wrong mistake.

Their authors did not write grader/solutions/mistakes. A file of strangers/<problem>/ is a fragment
like a variant, and its docstring describes its mistake. A line `is: NAME` gives the known mistake
that is the same, only described in other words. The grader may report no other name.
"""

import ast
import re
from pathlib import Path

import pytest

from grader.course import courses
from grader.course.courses import sources_in
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.solutions import fragments, mistakes
from grader.submission.submissions import Submission

STRANGERS = Path(__file__).parent / "strangers"
COURSE = courses.load()
PROBLEMS = [problem for problem in COURSE.problems if (STRANGERS / problem.id).is_dir()]
LEAST = 190


def truly(fragment):
    """The names of the known mistakes that an outside solution makes; usually one or none."""
    docstring = ast.get_docstring(ast.parse(fragment.source)) or ""
    return [
        name.strip()
        for line in re.findall(r"^is: (.*)$", docstring, re.M)
        for name in line.split(",")
    ]


def names_given(problem, fragment, box):
    """Grade an outside solution; return its named mistakes' summaries and its failed tests."""
    sources = sources_in(COURSE.reference)
    sources[problem.path] = fragment.applied_to(sources[problem.path].decode()).encode()
    submission = Submission(fragment.name, sources, [])
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
    """There are enough solutions in total, and every `is:` line names a known mistake."""
    assert sum(len(fragments.load(STRANGERS, problem.id)) for problem in PROBLEMS) >= LEAST
    for problem in PROBLEMS:
        known = {mistake.name for mistake in mistakes.load(COURSE.mistakes, problem.id)}
        assert [] == [
            (f.name, name)
            for f in fragments.load(STRANGERS, problem.id)
            for name in truly(f)
            if name not in known
        ]


@pytest.mark.proof
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
def test_no_name_is_false(problem, box, record_property):
    """Each solution fails a test, and any mistake that is named is the right one."""
    said = {mistake.name: mistake.says for mistake in mistakes.load(COURSE.mistakes, problem.id)}
    false, passed, named = [], [], 0
    strangers = fragments.load(STRANGERS, problem.id)
    for fragment in strangers:
        given, failed = names_given(problem, fragment, box)
        true = {said[name] for name in truly(fragment)}
        # A report that names two mistakes is right if one of them is.
        wrong = [text for text in given if not true & set(text.split(" Or: "))]
        false += [f"{fragment.name}: {text}" for text in wrong]
        passed += [] if failed else [fragment.name]
        named += bool(given)
    print(f"{problem.id}: {named} of {len(strangers)} are named")
    record_property("named", f"{named} of {len(strangers)}")
    assert not false, "\n".join(false)
    assert not passed, "\n".join(passed)
