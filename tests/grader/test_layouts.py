"""A course whose problems are in a package inside, with a module that students get complete."""

import json
import shutil

import pytest

from grader.course import courses
from grader.publish import stub_files
from tests.grader import small_courses
from tests.grader.in_the_sandbox import LEVELS
from tests.grader.processes import ran
from tests.grader.sampling import every
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow
MODULE = "assignment/model/activations.py"
HELPERS = '"""Given."""\n\n\ndef larger(n):\n    return max(0.0, n)\n'
MOVED = {
    "student.activations": "student.model.activations",
    'module = "activations"': 'module = "model.activations"',
    "max(0.0, n)": "larger(n)",
    "\n\n\ndef relu": "\n\nfrom assignment.helpers import larger\n\n\ndef relu",
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A small course with its module in a package, and its stubs."""
    folder = small_courses.with_lists(tmp_path_factory.mktemp("layouts") / "course")
    for path in folder.rglob("*.*"):
        text = path.read_text()
        for old, new in MOVED.items():
            text = text.replace(old, new)
        path.write_text(text)
    reference = folder / "solutions/reference"
    (reference / "model").mkdir()
    (reference / "activations.py").rename(reference / "model/activations.py")
    (reference / "helpers.py").write_text(HELPERS)
    stub_files.write(courses.load(folder))
    return folder


@pytest.fixture
def solved(course, tmp_path):
    """The module of the problems, solved; the given one is not handed in."""
    target = tmp_path / "solved" / MODULE
    target.parent.mkdir(parents=True)
    shutil.copy(course / "solutions/reference/model/activations.py", target)
    return tmp_path / "solved"


@pytest.mark.proof
def test_the_course_is_proved(grader, course):
    done = grader("validate", "--course", course)
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("level", every(2, LEVELS))
def test_a_module_in_a_package_is_graded(grader, course, solved, tmp_path, level):
    """The course's copy of a given module takes the place of one that is not handed in."""
    out = tmp_path / "r.json"
    command = ("grade", "--course", course, solved, "--isolation", level, "--json", out)
    done = grader(*command)
    assert (0, "") == (done.returncode, done.stderr)
    assert 3.0 == json.loads(out.read_text())["score"]
    source, right = solved / MODULE, (solved / MODULE).read_text()
    source.write_text(right.replace("larger(n)", "abs(n)"))
    assert "looks like It is wrong." in grader(*command).stdout
    (solved / "assignment/helpers.py").write_text("def larger(n):\n    return 0.0\n")
    source.write_text(right)
    assert "relu: wrong value" in grader(*command).stdout, "the submission's own copy counts"


def test_a_student_gets_the_package_and_hands_it_in(typed, course, solved, tmp_path):
    """Progress and the zip know the module by its path."""
    assert 0 == typed("release", "student", "--course", course, tmp_path / "s.zip")[0]
    shutil.unpack_archive(tmp_path / "s.zip", tmp_path)
    work = tmp_path / "student"
    command = [python(), "-m", "assignment"]
    done = ran(command, cwd=work)
    assert "0 of 2 problem" in done.stdout, done.stderr
    shutil.copy(solved / MODULE, work / MODULE)
    for words in ([], ["submit"]):
        done = ran([*command, *words], cwd=work)
        assert (0, "") == (done.returncode, done.stderr)
    assert "score 3.00 of 3" in typed("grade", "--course", course, work / "submission.zip")[1]
