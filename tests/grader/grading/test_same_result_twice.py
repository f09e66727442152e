"""The same submission, tests and seed give the same result, apart from times."""

import re

from grader.base.errors import Status
from grader.grading.grade import grade
from grader.submission.submissions import Submission
from tests.grader.compared_results import told
from tests.grader.in_the_sandbox import COURSE, warm


@warm
def test_a_weight_that_was_never_set_fails_the_same_tests_in_every_run(sandbox):
    """With another seed the same tests fail, with other sizes."""
    honest = (COURSE.reference / "linear.py").read_text()
    forgetful = re.sub(r"nn\.init\.trunc_normal_\(weight, .*\)", "weight", honest)
    assert forgetful != honest
    submission = Submission("forgetful", {"assignment/linear.py": forgetful.encode()}, [])
    one, other, again = (
        grade(
            submission,
            COURSE,
            sandbox,
            problems=[COURSE.problem("linear")],
            seed=seed,
            explain=False,
        )
        for seed in (0, 1, 0)
    )
    said = [
        {(t.id, t.status, told("", t)) for t in r.problems[0].tests} for r in (one, other, again)
    ]
    assert said[0] == said[2]
    assert Status.FAILED in {status for _, status, _ in said[0]}
    first, second = ({(*t[:2], re.sub(r"\d+", "#", t[2])) for t in texts} for texts in said[:2])
    assert first == second
