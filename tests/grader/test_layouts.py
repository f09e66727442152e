"""A course whose problems are in a package inside, with a module that students get complete."""

import json
import shutil
import zipfile

import pytest

from tests.grader.in_the_sandbox import LEVELS
from tests.grader.processes import ran
from tests.grader.sampling import every
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow
LAYERS = '''"""Two layers."""

from assignment.helpers import halved


def scaled(x: float) -> float:
    """Half of x.

    Handout §1.1 · `python -m assignment check scaled`
    """
    # BEGIN SOLUTION(scaled)
    return halved(x)
    # END SOLUTION
'''
FILES = {
    "assignment/problems.toml": """packages = []

[limits]
wall_seconds = 40.0
cpu_seconds = 10
memory_bytes = 536_870_912
processes = 32
file_bytes = 67_108_864
output_bytes = 1_048_576
submission_seconds = 60.0

[[problem]]
id = "scaled"
module = "model.layers"
functions = ["scaled"]
points = 2
section = "1.1"
""",
    "solutions/reference/model/layers.py": LAYERS,
    "solutions/reference/helpers.py": '"""Given."""\n\n\ndef halved(x):\n    return x / 2\n',
    "tests/hidden/scaled/wrong.edits": """[doubled] It doubles x.
hint: half of x
price: it is the problem
- halved(x)
+ 2 * x
""",
    "tests/hidden/scaled/test_hidden.py": '''"""scaled."""

import pytest

from kit import expect


@pytest.mark.harm("wrong number")
def test_half_of_a_number(student, rng):
    """It is half of x."""
    x = rng.random()
    got = student.model.layers.scaled(x)
    expect.number(got, x / 2, of="scaled", tolerance=1e-12)
''',
    "tests/public/test_scaled.py": '''"""scaled."""

from kit import expect


def test_half_of_three(student):
    """It is 1.5."""
    got = student.model.layers.scaled(3.0)
    expect.number(got, 1.5, of="scaled", tolerance=1e-12, inputs="3.0")
''',
    "handout/index.md": "# Half\n\n**1.1 Scaled.** Half of x.\n",
}


@pytest.fixture(scope="module")
def course(grader, root, tmp_path_factory):
    """The course, with its stubs."""
    folder = tmp_path_factory.mktemp("layouts") / "halves"
    tiny = root / "examples" / "tiny_course"
    for name in ("tests/__init__.py", "tests/conftest.py", "tests/probes/__init__.py"):
        FILES[name] = (tiny / name).read_text()
    for name in ("assignment/__init__.py", "assignment/__main__.py"):
        FILES[name] = (tiny / name).read_text()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = grader("stubs", "--course", folder)
    assert (0, "") == (done.returncode, done.stderr)
    return folder


@pytest.fixture
def solved(course, tmp_path):
    """The module of the problem, solved; the given one is not handed in."""
    target = tmp_path / "solved" / "assignment" / "model"
    target.mkdir(parents=True)
    shutil.copy(course / "solutions/reference/model/layers.py", target)
    return target.parents[1]


def test_stubs_are_written_below_folders_and_given_modules_are_copied(course):
    """A module that belongs to no problem is a student's as it is."""
    stub = (course / "assignment/model/layers.py").read_text()
    assert 'raise NotImplementedError("scaled: see handout §1.1")' in stub
    given = (course / "assignment/helpers.py").read_text()
    assert given == FILES["solutions/reference/helpers.py"]


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
    assert 2.0 == json.loads(out.read_text())["problems"][0]["score"]
    source = solved / "assignment/model/layers.py"
    source.write_text(source.read_text().replace("halved(x)", "2 * x"))
    assert "looks like It doubles x." in grader(*command).stdout
    (solved / "assignment/helpers.py").write_text("def halved(x):\n    return 0.0\n")
    source.write_text(LAYERS)
    done = grader(*command)
    assert "scaled: wrong value" in done.stdout, "the submission's own copy counts"


def test_a_student_gets_the_package_and_hands_it_in(grader, course, tmp_path):
    assert 0 == grader("release", "student", "--course", course, tmp_path / "s.zip").returncode
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        archive.extractall(tmp_path)
    work = tmp_path / "student"
    command = [python(), "-m", "assignment"]
    done = ran(command, cwd=work)
    assert "0 of 1 problem" in done.stdout, done.stderr
    (work / "assignment/model/layers.py").write_text(LAYERS)
    done = ran(command, cwd=work)
    assert (0, "") == (done.returncode, done.stderr)
    command.append("submit")
    done = ran(command, cwd=work)
    assert (0, "") == (done.returncode, done.stderr)
    done = grader("grade", "--course", course, work / "submission.zip")
    assert "score 2.00 of 2" in done.stdout, done.stderr
