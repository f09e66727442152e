"""Each shortcut that makes a grade faster can be turned off, and changes no result."""

import os
import re
import sys

import pytest

from grader.course import courses
from grader.course.courses import sources_in
from grader.solutions import known_mistakes
from grader.wire import speed_shortcuts
from kit.handing_in import zipped
from tests.grader.compared_results import without_seconds
from tests.grader.processes import ran

COURSE = courses.load()


def test_each_device_has_a_switch(root):
    """The program asks for every shortcut of the list, and for no other."""
    sources = [path.read_text() for path in (root / "grader").rglob("*.py")]
    asked = {name for text in sources for name in re.findall(r'shortcuts.is_off\("(\w+)"\)', text)}
    assert asked == set(speed_shortcuts.SHORTCUTS)


def test_the_switch_names_devices(monkeypatch):
    """1 stands for all of them; no value, or another name, for none."""
    for value in ("", "1", "exit", "sharing,exit", "e"):
        monkeypatch.setenv(speed_shortcuts.SWITCH, value)
        assert speed_shortcuts.is_off("exit") is (value in ("1", "exit", "sharing,exit"))
    monkeypatch.delenv(speed_shortcuts.SWITCH)
    assert speed_shortcuts.is_off("exit") is False
    assert speed_shortcuts.environment() == {}


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    """A submission with modules of every kind."""
    sources = sources_in(COURSE.reference)
    del sources["assignment/precision.py"]
    sources["assignment/einops_reshaping.py"] += b"\n    (\n"
    for problem in map(COURSE.problem, ("lr_schedule", "checkpoint")):
        wrong = known_mistakes.load(COURSE.hidden, problem.id)[0]
        sources[problem.path] = wrong.applied_to(sources[problem.path].decode()).encode()
    stubs = sources_in(COURSE.assignment)
    sources["assignment/optimizers.py"] = stubs["assignment/optimizers.py"]
    path = tmp_path_factory.mktemp("handed in") / "ada.zip"
    path.write_bytes(zipped(sources))
    return path


def graded(submission, out, switched):
    """The result of a grade with some shortcuts turned off, without its times."""
    command = [sys.executable, "-m", "grader", "grade", submission, "--json", out]
    environment = {**os.environ, speed_shortcuts.SWITCH: switched}
    done = ran(command, env=environment)
    said = [line for line in done.stderr.splitlines() if not line.startswith("grading:")]
    assert (done.returncode, said) == (0, [])  # a slow machine shows its progress
    return without_seconds(out.read_text())


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("shortcut", ["1", *speed_shortcuts.SHORTCUTS])
def test_a_grade_without_a_shortcut_has_the_same_result(submission, tmp_path, shortcut):
    usual = graded(submission, tmp_path / "usual.json", "")
    assert usual == graded(submission, tmp_path / "other.json", shortcut)
