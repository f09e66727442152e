"""The same commands grade, prove and publish a course without torch, with data and processes."""

import shutil
import zipfile

import pytest

from tests.grader.in_the_sandbox import LEVELS

pytestmark = pytest.mark.slow
COURSE = "examples/byte_pairs"


@pytest.fixture
def solved(root, tmp_path):
    """The example's reference, as a submission."""
    reference = root / COURSE / "solutions" / "reference"
    return shutil.copytree(reference, tmp_path / "solved" / "assignment").parent


@pytest.mark.parametrize("level", LEVELS)
def test_it_is_graded_at_both_levels(grader, root, solved, level):
    done = grader("grade", "--course", root / COURSE, solved, "--isolation", level)
    assert (0, "") == (done.returncode, done.stderr)
    assert "score 6.00 of 6" in done.stdout
    assert "torch" not in done.stdout


def test_a_package_that_the_course_does_not_name_is_not_there(grader, root, solved):
    source = solved / "assignment" / "codec.py"
    source.write_text(f"import numpy\n{source.read_text()}")
    done = grader("grade", "--course", root / COURSE, solved, "--only", "codec")
    assert 0 == done.returncode, done.stderr
    assert "raised ModuleNotFoundError: No module named 'numpy'" in done.stdout
    assert "may import the standard library, regex" in done.stdout


@pytest.mark.proof
def test_it_is_proved(grader, root):
    done = grader("validate", "--course", root / COURSE)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "public tests: as required" in done.stdout
    assert "the zip for Gradescope: as required" in done.stdout


def test_what_a_student_gets_is_made_for_this_course(grader, root, tmp_path):
    done = grader("release", "student", "--course", root / COURSE, tmp_path / "student.zip")
    assert 0 == done.returncode, done.stderr
    with zipfile.ZipFile(tmp_path / "student.zip") as archive:
        settings = archive.read("student/pyproject.toml").decode()
        names = [name.removeprefix("student/") for name in archive.namelist()]
        readme = archive.read("student/README.md").decode()
    assert 'name = "byte-pairs"' in settings
    assert 'dependencies = ["regex", "pytest>=8.2"]' in settings
    assert readme.startswith("# byte_pairs\n")
    assert "tests/probes/data/corpus.txt" in names
    assert not [name for name in names if "hidden" in name or name.startswith(".github")]


def test_what_gradescope_gets_holds_the_data_of_hidden_tests(grader, root, tmp_path):
    """Its requirements name the course's package, and neither torch nor einops."""
    done = grader("release", "gradescope", "--course", root / COURSE, tmp_path / "out.zip")
    assert 0 == done.returncode, done.stderr
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        names = archive.namelist()
        needed = archive.read("requirements.txt").decode()
    assert "course/tests/hidden/codec/words.json" in names
    assert "course/tests/probes/data/corpus.txt" in names
    assert "regex==" in needed
    assert "torch" not in needed
    assert "einops" not in needed
