"""The examples for PrairieLearn and Autolab, run as these platforms run them."""

import json
import os
import shutil
import subprocess

import jsonschema
import pytest

from tests.grader import small_courses
from tests.grader.report.test_autolab_report import read
from tests.grader.report.test_prairielearn_report import SCHEMA
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow


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


def test_prairielearn_gets_a_share_for_a_file_without_its_folder(source, solution, root, tmp_path):
    """A student uploads the module alone. If the grader fails, no attempt is taken."""
    script = root / "examples/prairielearn/grade.sh"
    home = tmp_path / "grade"
    (home / "student").mkdir(parents=True)

    def graded():
        run("bash", script, folder=home, GRADE_HOME=str(home), GRADER_SOURCE=str(source))
        tree = json.loads((home / "results" / "results.json").read_text())
        jsonschema.validate(tree, SCHEMA)
        return tree

    assert "cannot be graded" in graded()["format_errors"][0]
    shutil.copy(solution, home / "student")
    tree = graded()
    assert (True, 1.0) == (tree["gradable"], tree["score"])
    (source / ".venv" / "bin" / "python").write_text("#!/bin/sh\n")  # as if it were killed
    tree = graded()
    assert not tree["gradable"]
    assert "The fault is ours" in tree["message"]


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
    assert "The fault is ours" in output
