"""Gradescope's results.json, as Gradescope would show and record it."""

import json
from decimal import Decimal

import msgspec
import pytest

from grader.base.errors import Status
from grader.course.late_policy import Shows
from grader.report import gradescope_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from tests.grader.report.documented_formats import Gradescope
from tests.grader.report.sample_results import (
    ended,
    every_status,
    hostile,
    override,
    result,
    standing,
)


def written(found, grade=None, **given):
    """What Gradescope reads from the file."""
    return valid(json.loads(gradescope_report.render(Reported(found, grade, **given))))


def valid(tree):
    msgspec.convert(tree, Gradescope)
    return tree


def worth(tree):
    """The sum of the entries' points, as decimals exactly as in the file."""
    return sum(Decimal(str(test["max_score"])) for test in tree["tests"])


def test_tests_of_a_problem_share_an_entry_if_they_ended_for_the_same_reason():
    tests = written(every_status())["tests"]
    assert [
        ("1.1", "linear: 2 tests passed"),
        ("1.2", "linear: 2 tests failed"),
        ("1.3", "linear: 1 test crashed"),
        ("1.4", "linear: 1 test took too long"),
        ("2.1", "adamw: 1 test needed too much memory"),
        ("2.2", "adamw: 1 test used what this problem forbids"),
        ("2.3", "adamw: 1 test not attempted"),
        ("3.1", "gpu: 1 test pending"),
    ] == [(test["number"], test["name"]) for test in tests]
    assert ["passed", *["failed"] * 6, None] == [test.get("status") for test in tests]


def test_a_failure_says_what_happened_once_and_every_rule_that_it_broke():
    (entry,) = [test for test in written(every_status())["tests"] if test["number"] == "1.2"]
    assert entry["output"] == (
        "linear · forward: wrong values\n"
        "  expected  0.5 at [0, 2]\n"
        "  got       0.25\n"
        "rule: The output is x times the transposed weight.\n"
        "rule: Another rule.\n"
        "hint: Is the weight transposed?\n"
        "tests: test_b, test_c"
    )
    assert "text" == entry["output_format"]


def test_what_was_not_begun_has_broken_no_rule():
    begun, not_begun = (
        problem_result(
            "linear", "linear", 2, [ended("a", status, what="not attempted", rule="A rule.")]
        )
        for status in (Status.FAILED, Status.NOT_ATTEMPTED)
    )
    (entry,) = written(result(begun))["tests"]
    assert "rule: A rule." in entry["output"]
    (entry,) = written(result(not_begun))["tests"]
    assert "rule" not in entry["output"]


def test_a_course_decides_what_students_see():
    shows = Shows(
        results="after_due_date", tests="after_published", reasons=False, printed="visible"
    )
    tree = written(every_status(), shows=shows)
    assert ("after_due_date", "visible") == (tree["visibility"], tree["stdout_visibility"])
    assert {"after_published"} == {entry["visibility"] for entry in tree["tests"]}
    (entry,) = [entry for entry in tree["tests"] if entry["number"] == "1.2"]
    assert "test_b, test_c" == entry["output"]
    tree = written(every_status(), shows=Shows(results="hidden"))
    # A test with a setting of its own would be shown although the result is hidden.
    assert "hidden" == tree["visibility"]
    assert not any("visibility" in entry for entry in tree["tests"])


def test_a_leaderboard_has_the_points_and_no_name():
    """Students choose nicknames in Gradescope; without points, there is no entry."""
    shows = Shows(leaderboard=True)
    entry = {"name": "Points", "value": 3.33, "order": "desc"}
    assert [entry] == written(every_status(), shows=shows)["leaderboard"]
    assert "leaderboard" not in written(every_status())
    assert "leaderboard" not in written(every_status(grader_error=True), shows=shows)


def test_a_submission_that_cannot_be_graded_has_zero_points_and_a_fault_of_ours_none():
    ours = json.loads(gradescope_report.without_points("our fault"))
    theirs = valid(json.loads(gradescope_report.nothing_earned("no folder")))
    assert {"score", "tests"}.isdisjoint(ours)
    assert 0 == theirs["score"]


@pytest.mark.parametrize("points", [1, 5, 0.1, 2.345, 100])
@pytest.mark.parametrize("count", [1, 3, 7, 80])
def test_the_points_of_all_entries_are_the_points_of_the_assignment(points, count):
    """Shares such as a third are rounded, also many small ones, and none is negative."""
    ends = Status.PASSED, Status.FAILED
    tests = [ended(f"{i}", ends[i > 0], what=f"{i}") for i in range(count)]
    tree = written(result(problem_result("a", "m", points, tests)))
    assert worth(tree) == Decimal(str(points))
    assert count == len(tree["tests"])


def test_pending_points_are_worth_something_and_not_lost():
    tree = written(every_status())
    assert 19 == worth(tree)
    pending = tree["tests"][-1]
    assert (4, None, None) == tuple(pending.get(key) for key in ("max_score", "score", "status"))
    assert tree["output"].startswith("4 points pending")
    earned = every_status().score
    assert tree["score"] == round(earned, 4)
    assert sum(test.get("score", 0) for test in tree["tests"]) == pytest.approx(earned, abs=0.01)


def test_a_fault_of_the_grader_gives_no_score_and_no_entry():
    """Without a score, Gradescope shows a failed run; points by hand count all the same."""
    tree = written(every_status(grader_error=True))
    assert {"score", "tests"}.isdisjoint(tree)
    assert "The grader failed" in tree["output"]
    assert "nobody loses a point" in tree["output"]
    grade = standing(points=12.0, overrides=[override(12.0)])
    tree = written(every_status(grader_error=True), grade)
    assert (12, False) == (tree["score"], "tests" in tree)


def test_the_output_says_what_lateness_and_overrides_did():
    grade = standing(
        points=2.5, days_late=2, penalty=20.0, overrides=[override(3.0, problem="linear")]
    )
    tree = written(every_status(), grade)
    assert 2.5 == tree["score"]
    assert tree["output"].splitlines() == [
        "4 points pending: tests for another device have not run yet.",
        "Handed in late: 2 days after grace and free days. This costs 20 % of the score.",
        "A person set linear to 3 points: regraded by hand",
        "The tests gave 3.33 points; 2.5 points count.",
    ]


def test_without_a_remark_the_output_is_empty():
    perfect = result(problem_result("a", "m", 3, [ended("x", Status.PASSED)]))
    tree = written(perfect, standing(points=3.0, score=3.0))
    assert ("", 3) == (tree["output"], tree["score"])
    assert {"grader": "1.2.3", "suite_sha256": "cd" * 32} == tree["extra_data"]
    assert ("visible", "hidden") == (tree["visibility"], tree["stdout_visibility"])


def test_hostile_texts_stay_text():
    tree = written(hostile(), standing(points=1.0, overrides=[override(1.0, reason="\x1b[2J")]))
    assert 3 == worth(tree)
    assert "\\x1b[2J" in tree["output"]
    assert "\\u202egnp.exe" in json.dumps(tree, ensure_ascii=False).replace("\\\\", "\\")
