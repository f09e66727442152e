"""`grader autograde` in the containers of PrairieLearn and Autolab."""

import json
import shutil

import jsonschema
import pytest

from tests.grader.report.test_autolab_report import read
from tests.grader.report.test_prairielearn_report import SCHEMA

COURSE = "examples/tiny_course"


@pytest.fixture
def solution(root):
    return root / COURSE / "solutions/reference/activations.py"


def test_prairielearn_gets_a_share_for_a_file_without_its_folder(grader, solution, root, tmp_path):
    """A student uploads the module alone."""
    (tmp_path / "student").mkdir()
    (tmp_path / "results").mkdir()
    shutil.copy(solution, tmp_path / "student")
    place = ("autograde", tmp_path, "--platform", "prairielearn", "--course", root / COURSE)
    done = grader(*place)
    assert 0 == done.returncode, done.stderr
    tree = json.loads((tmp_path / "results/results.json").read_text())
    jsonschema.validate(tree, SCHEMA)
    assert (True, 1.0) == (tree["gradable"], tree["score"])
    (tmp_path / "student" / "activations.py").unlink()
    assert 0 == grader(*place).returncode
    tree = json.loads((tmp_path / "results/results.json").read_text())
    jsonschema.validate(tree, SCHEMA)
    assert "cannot be graded" in tree["format_errors"][0]


def test_autolab_gets_its_last_line(grader, root, tmp_path, solution):
    """The submission is handin.zip, beside the Makefile."""
    folder = tmp_path / "solved"
    (folder / "assignment").mkdir(parents=True)
    shutil.copy(solution, folder / "assignment")
    shutil.make_archive(str(tmp_path / "handin"), "zip", folder)
    place = ("autograde", tmp_path, "--platform", "autolab", "--course", root / COURSE)
    assert 0 == grader(*place).returncode
    found = read((tmp_path / "feedback.txt").read_text())
    assert {"scores": {"relu": 1.0, "softmax": 2.0}, "scoreboard": [3.0]} == found
    (tmp_path / "handin.zip").write_bytes(b"PK")
    assert 0 == grader(*place).returncode
    output = (tmp_path / "feedback.txt").read_text()
    assert {"relu": 0, "softmax": 0} == read(output)["scores"]
    assert "This submission cannot be graded" in output


def test_an_unknown_platform_is_a_misuse(grader, tmp_path):
    done = grader("autograde", tmp_path, "--platform", "moodle")
    said = "grader: --platform moodle: expected gradescope or prairielearn or autolab\n"
    assert (2, said) == (done.returncode, done.stderr)
