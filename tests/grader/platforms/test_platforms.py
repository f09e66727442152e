"""PrairieLearn and Autolab: their results, and the examples run as these platforms run them."""

import json
import os
import shutil
import subprocess

import msgspec
import pytest

from grader.base.errors import Status
from grader.course.late_policy import Shows
from grader.platforms.harness import PLATFORMS
from grader.platforms.removable.autolab_platform import ABOVE_THE_SCORES
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from tests.grader import small_courses
from tests.grader.report.documented_formats import PrairieLearn
from tests.grader.report.sample_results import (
    HARMLESS,
    ended,
    every_status,
    failed,
    hostile,
    override,
    result,
    standing,
)
from tests.grader.warm_python import python

autolab, prairielearn = PLATFORMS["autolab"], PLATFORMS["prairielearn"]


def share(*arguments, **given):
    """PrairieLearn's results.json."""
    return checked(prairielearn.render(Reported(*arguments, **given)))


def checked(text):
    """The content of a results.json, which has a largest size."""
    assert len(text.encode()) < 1_000_000
    tree = json.loads(text)
    msgspec.convert(tree, PrairieLearn)
    return tree


def test_the_score_is_a_share_of_the_points_that_this_run_can_give():
    """Pending points are neither earned nor lost, so they are in no test and no maximum."""
    tree = share(every_status())
    assert (True, pytest.approx(3.3333 / 15, abs=1e-4)) == (tree["gradable"], tree["score"])
    assert 15 == pytest.approx(sum(test["max_points"] for test in tree["tests"]))
    assert 3.33 == pytest.approx(sum(test["points"] for test in tree["tests"]))
    assert tree["message"].startswith("3.33 of 15 points\n4 points pending")
    assert "linear: 2 tests failed" == tree["tests"][1]["name"]
    assert tree["tests"][1]["output"].startswith("linear · forward: wrong values\n  expected")
    assert 1.0 == share(every_status(), standing(points=50.0))["score"]


def test_what_gives_no_share_costs_no_attempt():
    """A fault of ours without points by hand, what is no submission, and no test that can run."""
    tree = share(every_status(grader_error=True))
    assert {"gradable", "message"} == set(tree)
    assert OURS in tree["message"]
    given = standing(points=12.0, overrides=[override(12.0)])
    tree = share(every_status(grader_error=True), given)
    assert (True, 0.8) == (tree["gradable"], tree["score"])
    assert not checked(prairielearn.without_points("our fault"))["gradable"]
    tree = checked(prairielearn.nothing_earned("no module", ["linear"]))
    assert {"gradable": False, "format_errors": ["no module"]} == tree
    pending = [ended("j", Status.DEFERRED, device="cuda")]
    assert not share(result(problem_result("gpu", "m", 4, pending, "cuda")))["gradable"]


def test_hostile_and_long_texts_stay_text():
    tree = share(hostile())
    assert any("<script>alert(1)</script>" in test["output"] for test in tree["tests"])
    long = "\U000e0001é" * 3_000
    tests = [failed(f"{i}", f"{i}{long}", rule=long + str(i), hint=long) for i in range(400)]
    assert 400 == len(share(result(problem_result("p", "m", 100, tests)))["tests"])


def read(output):
    """The scores as Autolab reads them: from the last line that is not empty, or None."""
    last = output.rstrip("\n").splitlines()[-1]
    try:
        found = json.loads(last)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "scores" in found else None


def output_of(found, **given):
    """Autolab's output."""
    return autolab.render(Reported(found, **given))


def test_the_last_line_has_the_points_of_each_problem_and_a_row_of_the_scoreboard():
    """A problem whose tests are all pending has no score, so it has no 0."""
    output = output_of(every_status())
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
    shows = Shows(reasons=False)
    assert "wrong values" not in output_of(every_status(), shows=shows)
    assert "test_b, test_c" == share(every_status(), shows=shows)["tests"][1]["output"]


def test_what_autolab_records_if_nothing_was_graded():
    """A 0 for a fault of ours would be recorded as a grade."""
    ours = [output_of(every_status(grader_error=True)), autolab.without_points(OURS)]
    assert [(None, True)] * 2 == [(read(output), OURS in output) for output in ours]
    output = autolab.nothing_earned("It has no module.", ["linear", "adamw"])
    assert {"scores": {"linear": 0, "adamw": 0}, "scoreboard": [0]} == read(output)
    assert output.startswith("It has no module.\n")


OURS = "The fault is ours"


def test_hostile_texts_are_neither_scores_nor_formatting():
    """The line above the scores, which can ask for formatted feedback, is always ours."""
    output = output_of(hostile())
    *others, above, last = output.rstrip("\n").splitlines()
    assert ABOVE_THE_SCORES == above
    assert [0.0] * 3 == list(json.loads(last)["scores"].values())
    assert last.isascii()
    assert {c for c in output if not c.isprintable()} <= {"\n", *HARMLESS}
    assert others


@pytest.fixture
def source(root, tmp_path):
    folder = tmp_path / "source"
    (folder / ".venv" / "bin").mkdir(parents=True)
    program = folder / ".venv" / "bin" / "python"
    program.write_text(f'#!/bin/sh\nexport PYTHONPATH="{root}"\nexec {python()} "$@"\n')
    program.chmod(0o755)
    small_courses.with_lists(folder / "course")
    return folder


@pytest.fixture
def solution(source):
    return source / "course/solutions/reference/activations.py"


def run(*command, folder, **environment):
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.slow
def test_prairielearn_gets_a_share_for_a_file_without_its_folder(source, solution, root, tmp_path):
    """A student uploads the module alone. If the grader fails, no attempt is taken."""
    script = root / "examples/prairielearn/grade.sh"
    home = tmp_path / "grade"
    (home / "student").mkdir(parents=True)

    def graded():
        run("bash", script, folder=home, GRADE_HOME=str(home), GRADER_SOURCE=str(source))
        return checked((home / "results" / "results.json").read_text())

    assert "cannot be graded" in graded()["format_errors"][0]
    shutil.copy(solution, home / "student")
    tree = graded()
    assert (True, 1.0) == (tree["gradable"], tree["score"])
    (source / ".venv" / "bin" / "python").write_text("#!/bin/sh\n")  # as if it were killed
    tree = graded()
    assert not tree["gradable"]
    assert OURS in tree["message"]


@pytest.mark.slow
def test_autolab_gets_its_last_line(source, solution, root, tmp_path):
    """The submission is handin.zip, beside the Makefile. If the grader fails, there is no score."""
    home, folder = tmp_path / "autolab", tmp_path / "solved"
    home.mkdir()
    (folder / "assignment").mkdir(parents=True)
    shutil.copy(root / "examples/autolab/autograde-Makefile", home / "Makefile")
    shutil.copy(solution, folder / "assignment")
    shutil.make_archive(str(home / "handin"), "zip", folder)
    output = run("make", f"SOURCE={source}", folder=home)
    found = {"scores": {"relu": 1.0, "softmax": 2.0}, "scoreboard": [3.0]}
    assert found == read(output)
    assert output.startswith("3 of 3 points\n")
    (home / "handin.zip").write_bytes(b"PK")
    output = run("make", f"SOURCE={source}", folder=home)
    assert {"relu": 0, "softmax": 0} == read(output)["scores"]
    assert output.startswith("This submission cannot be graded")
    output = run("make", f"SOURCE={tmp_path / 'nowhere'}", folder=home)
    assert read(output) is None
    assert OURS in output
