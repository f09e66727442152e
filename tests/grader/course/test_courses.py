"""The course: which packages it needs, and which files count as its suite."""

import re
import shutil
import sys

import pytest

from grader.base.errors import CourseFault
from grader.course import courses


@pytest.fixture
def tiny(root, tmp_path):
    """A copy of the example course."""
    return shutil.copytree(root / "examples" / "tiny_course", tmp_path / "tiny")


def with_packages(folder, packages):
    """Let a course name these packages, in the third line of problems.toml."""
    listed = folder / "assignment" / "problems.toml"
    text = re.sub(r"(?m)^packages = .*\n", "", listed.read_text())
    listed.write_text(f"# A course.\n\npackages = {packages}\n{text}")
    return courses.load(folder)


def test_a_course_that_names_no_packages_has_the_usual_ones(tiny):
    """The usual packages are those of the grader's own course; torch is among them."""
    course = with_packages(tiny, '["numpy"]')
    assert (("numpy",), False) == (course.packages, course.uses_torch)
    assert with_packages(tiny, '["numpy", "torch>=2.6"]').uses_torch
    assert not with_packages(tiny, "[]").packages
    listed = tiny / "assignment" / "problems.toml"
    listed.write_text(listed.read_text().replace("packages = []\n", ""))
    assert courses.load(tiny).packages == ("torch", "numpy", "einops", "jaxtyping")
    assert courses.load().uses_torch


@pytest.mark.parametrize(
    ("package", "found"),
    [
        ("no-such-package>=2", f"no-such-package is not installed in {sys.prefix}"),
        ("pytest<2", rf"pytest \d+\.\d+\.\d+ is installed in {sys.prefix}"),
    ],
)
def test_a_missing_package_is_one_sentence(tiny, package, found):
    """The sentence names the line, what is expected, what is there, and the command to run."""
    course = with_packages(tiny, f'["numpy", "{package}"]')
    with pytest.raises(CourseFault) as raised:
        courses.check_packages(course)
    assert re.fullmatch(
        rf"{course.list_of_problems}:3: packages: expected {package}; {found}: "
        rf'run `{sys.executable} -m pip install "{package}"`',
        str(raised.value),
    )
    courses.check_packages(with_packages(tiny, '["numpy", "pytest>=2"]'))


@pytest.mark.parametrize(
    "place",
    ["tests/hidden/data/expected.json", "tests/probes/corpus.txt", "assignment/given.py"],
)
def test_the_data_of_tests_belong_to_the_suite(tiny, place):
    """A changed expected value or given module is another suite.

    What Python leaves is not, and neither is a solution that proves the tests.
    """
    course = courses.load(tiny)
    hashes = [course.suite_sha256()]
    for content in ("1", "2"):
        (tiny / place).parent.mkdir(exist_ok=True)
        (tiny / place).write_text(content)
        hashes.append(course.suite_sha256())
    assert 3 == len(set(hashes))
    (tiny / "tests" / "hidden" / "__pycache__").mkdir(exist_ok=True)
    (tiny / "tests" / "hidden" / "__pycache__" / "test_relu.pyc").write_bytes(b"1")
    (tiny / "tests" / "hidden" / "relu" / "wrong.edits").write_text("")
    (tiny / "tests" / "hidden" / "softmax" / "right.py").write_text("")
    assert course.suite_sha256() == hashes[-1]


def test_a_course_without_solutions_does_not_get_those_of_another(tiny):
    """The sentence names the file that is missing."""
    shutil.rmtree(tiny / "solutions")
    course = courses.load(tiny)
    with pytest.raises(CourseFault, match=r"tiny/solutions/reference/activations.py cannot be"):
        course.reference_of(course.problems[0])
