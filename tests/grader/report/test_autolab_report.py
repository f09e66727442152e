"""Autolab's output: its last line has the scores, and no text of a student can be that line."""

import json

from grader.course.policies import Shows
from grader.report.more import autolab as autolab_report
from grader.report.more.autolab import ABOVE_THE_SCORES
from grader.report.reported import Reported
from tests.grader.report.samples import HARMLESS, every_status, hostile


def read(output):
    """The scores as Autolab reads them: from the last line that is not empty, or None."""
    last = output.rstrip("\n").splitlines()[-1]
    try:
        found = json.loads(last)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "scores" in found else None


def written(found, **given):
    return autolab_report.render(Reported(found, **given))


def test_the_last_line_has_the_points_of_each_problem_and_a_row_of_the_scoreboard():
    """A problem whose tests are all pending has no score, so it has no 0."""
    output = written(every_status())
    assert read(output) == {"scores": {"linear": 3.3333, "adamw": 0.0}, "scoreboard": [3.33]}
    assert output.splitlines()[:4] == [
        "3.33 of 15 points",
        "4 points pending: tests for another device have not run yet.",
        "  linear: 3.33 of 10 points, crashed",
        "  adamw: 0 of 5 points, policy",
    ]
    assert "\n  linear · forward: wrong values\n    expected  0.5 at [0, 2]\n" in output
    assert "test_b, test_c" in output


def test_a_course_can_keep_the_reasons_to_itself():
    assert "wrong values" not in written(every_status(), shows=Shows(reasons=False))


def test_a_fault_of_the_grader_gives_no_score():
    """A 0 would be recorded as a grade."""
    for output in (
        written(every_status(grader_error=True)),
        autolab_report.without_points("The fault is ours."),
    ):
        assert read(output) is None
        assert "The fault is ours" in output


def test_a_submission_that_cannot_be_read_earns_nothing():
    output = autolab_report.nothing_earned("It has no module.", ["linear", "adamw"])
    assert {"scores": {"linear": 0, "adamw": 0}, "scoreboard": [0]} == read(output)
    assert output.startswith("It has no module.\n")


def test_hostile_texts_are_neither_scores_nor_formatting():
    """The line above the scores, which can ask for formatted feedback, is always ours."""
    output = written(hostile())
    *others, above, last = output.rstrip("\n").splitlines()
    assert ABOVE_THE_SCORES == above
    assert [0.0] * 3 == list(json.loads(last)["scores"].values())
    assert last.isascii()
    assert {c for c in output if not c.isprintable()} <= {"\n", *HARMLESS}
    assert others
