"""PrairieLearn's results.json: a share of the points, and no attempt for a fault of ours."""

import json
from pathlib import Path

import jsonschema
import pytest

from grader.base.errors import Status
from grader.course.policies import Shows
from grader.report.more import prairielearn as prairielearn_report
from grader.report.reported import Reported
from grader.results.points import problem_result
from tests.grader.report.samples import ended, every_status, failed, hostile, override, result
from tests.grader.report.samples import standing as graded

FOLDER = Path(__file__).parent.parent / "classroom"
SCHEMA = json.loads((FOLDER / "prairielearn.schema.json").read_text())


def checked(text):
    """The content of a results.json, checked against the schema and the largest size."""
    assert len(text.encode()) < 1_000_000
    tree = json.loads(text)
    jsonschema.validate(tree, SCHEMA)
    return tree


def written(*arguments, **given):
    return checked(prairielearn_report.render(Reported(*arguments, **given)))


def test_the_score_is_a_share_of_the_points_that_this_run_can_give():
    """Pending points are neither earned nor lost, so they are in no test and no maximum."""
    tree = written(every_status())
    assert (True, pytest.approx(3.3333 / 15, abs=1e-4)) == (tree["gradable"], tree["score"])
    assert 15 == pytest.approx(sum(test["max_points"] for test in tree["tests"]))
    assert 3.33 == pytest.approx(sum(test["points"] for test in tree["tests"]))
    assert tree["message"].startswith("3.33 of 15 points\n4 points pending")
    assert "linear: 2 tests failed" == tree["tests"][1]["name"]
    assert tree["tests"][1]["output"].startswith("linear · forward: wrong values\n  expected")


def test_a_course_can_keep_the_reasons_to_itself():
    tree = written(every_status(), shows=Shows(reasons=False))
    assert "test_b, test_c" == tree["tests"][1]["output"]


def test_a_fault_of_the_grader_costs_no_attempt():
    """Points that a person gave count all the same."""
    tree = written(every_status(grader_error=True))
    assert {"gradable", "message"} == set(tree)
    assert not tree["gradable"]
    assert "The fault is ours" in tree["message"]
    given = graded(points=12.0, overrides=[override(12.0)])
    tree = written(every_status(grader_error=True), given)
    assert (True, 0.8) == (tree["gradable"], tree["score"])
    assert not checked(prairielearn_report.without_points("our fault"))["gradable"]


def test_a_submission_that_cannot_be_read_is_a_format_error():
    tree = checked(prairielearn_report.nothing_earned("no module", ["linear"]))
    assert {"gradable": False, "format_errors": ["no module"]} == tree


def test_nothing_to_grade_on_this_device_is_no_zero():
    pending = [ended("j", Status.DEFERRED, device="cuda")]
    tree = written(result(problem_result("gpu", "m", 4, pending, "cuda")))
    assert not tree["gradable"]


def test_more_points_than_there_are_give_no_more_than_everything():
    assert 1.0 == written(every_status(), graded(points=50.0))["score"]


def test_hostile_and_long_texts_stay_text():
    tree = written(hostile())
    assert any("<script>alert(1)</script>" in test["output"] for test in tree["tests"])
    long = "\U000e0001é" * 3_000
    tests = [failed(f"{i}", f"{i}{long}", rule=long + str(i), hint=long) for i in range(100)]
    assert 100 == len(written(result(problem_result("p", "m", 100, tests)))["tests"])
