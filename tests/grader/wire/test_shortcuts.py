"""Each shortcut that makes a grade faster can be turned off, and changes no result."""

import os
import re
import subprocess
import sys

import pytest

from grader.course import courses
from grader.course.courses import sources_in
from grader.solutions import mistakes
from grader.wire import shortcuts
from kit.handing_in import zipped
from tests.grader.told import without_seconds

COURSE = courses.load()
# A right module, one that is missing, one that cannot be parsed, one with a stub, and mistakes.
PROBLEMS = ("linear", "gradient_clipping", "precision", "einops", "lr_schedule", "checkpoint")


def test_each_device_has_a_switch(root):
    """The program asks for every shortcut of the list, and for no other."""
    sources = [path.read_text() for path in (root / "grader").rglob("*.py")]
    asked = {name for text in sources for name in re.findall(r'shortcuts.is_off\("(\w+)"\)', text)}
    assert asked == set(shortcuts.SHORTCUTS)


def test_the_switch_names_devices(monkeypatch):
    """1 stands for all of them; no value, or another name, for none."""
    for value, off in [
        ("", False),
        ("1", True),
        ("heap", True),
        ("exit,heap", True),
        ("h", False),
    ]:
        monkeypatch.setenv(shortcuts.SWITCH, value)
        assert shortcuts.is_off("heap") is off
    monkeypatch.delenv(shortcuts.SWITCH)
    assert shortcuts.is_off("heap") is False
    assert shortcuts.environment() == {}


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    """A submission with modules of every kind."""
    sources = sources_in(COURSE.reference)
    del sources["assignment/precision.py"]
    sources["assignment/einops_reshaping.py"] += b"\n    (\n"
    for problem in map(COURSE.problem, ("lr_schedule", "checkpoint")):
        wrong = mistakes.load(COURSE.hidden, problem.id)[0]
        sources[problem.path] = wrong.applied_to(sources[problem.path].decode()).encode()
    stubs = sources_in(COURSE.assignment)
    sources["assignment/optimizers.py"] = stubs["assignment/optimizers.py"]
    path = tmp_path_factory.mktemp("handed in") / "ada.zip"
    path.write_bytes(zipped(sources))
    return path


def graded(submission, out, switched, problems):
    """The result of a grade with some shortcuts turned off, without its times."""
    only = [word for name in problems for word in ("--only", name)]
    command = [sys.executable, "-m", "grader", "grade", submission, *only, "--json", out]
    environment = {**os.environ, shortcuts.SWITCH: switched}
    done = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, timeout=600
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("grading:")]
    assert (done.returncode, said) == (0, [])  # a slow machine shows its progress
    return without_seconds(out.read_text())


@pytest.mark.slow
@pytest.mark.proof
def test_a_plain_grade_has_the_same_result(submission, tmp_path):
    """The report is the same text but for its times."""
    one, other = (
        graded(submission, tmp_path / f"{number}.json", value, PROBLEMS)
        for number, value in enumerate(["", "1"])
    )
    assert one == other


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("shortcut", shortcuts.SHORTCUTS)
def test_a_grade_without_one_device_has_the_same_result(submission, tmp_path, shortcut):
    """Each shortcut can be turned off alone, for all problems."""
    every = [problem.id for problem in COURSE.problems]
    one, other = (
        graded(submission, tmp_path / f"{number}.json", value, every)
        for number, value in enumerate(["", shortcut])
    )
    assert one == other
