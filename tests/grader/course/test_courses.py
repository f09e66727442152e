"""The course: its list of problems, the packages it needs, and which files count as its suite."""

import re
import shutil
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.base.errors import CourseFault, UsageError
from grader.course import courses, problems_toml
from tests.grader.conftest import changed


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
    changed(tiny / "assignment/problems.toml", "packages = []\n", "")
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
    "place", ["tests/hidden/data/expected.json", "tests/probes/corpus.txt", "assignment/given.py"]
)
def test_the_data_of_tests_belong_to_the_suite(tiny, place):
    """What Python leaves is no part of it, and neither is a solution that proves the tests."""
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
    shutil.rmtree(tiny / "solutions")
    course = courses.load(tiny)
    with pytest.raises(CourseFault, match=r"tiny/solutions/reference/activations.py cannot be"):
        course.reference_of(course.problems[0])


# --- every error in problems.toml is reported when the file is loaded, with its line --------------


LIMITS = {
    name: kind for name, kind in courses.Limits.__annotations__.items() if kind in (int, float)
}

RIGHT = """\
[limits]  # of a test
wall_seconds = 10.0
cpu_seconds = 10
memory_bytes = 2_000
device_memory_bytes = 8_000
processes = 32
file_bytes = 600
# of all tests of a submission together:
submission_seconds = 720.0

[[problem]]
id = "linear"
module = "linear"
functions = ["Linear", "MLP"]
points = 5
section = "7.1"
device = "cpu"
forbidden = []

[[problem]]
id = "autograd"
module = "autograd"
functions = [
    "mlp_backward",  # by hand
    "MatMul",
]
points = 9
section = "6.1"
device = "cpu"
forbidden = ["torch.autograd.gradcheck"]
limits = { wall_seconds = 30.0, cpu_seconds = 30 }

[problem.forbidden_in]
mlp_backward = ["torch.autograd.grad"]
MatMul = ["torch.autograd.grad"]
"""

TOP = "[limits]  # of a test"  # lines may come before it
POINTS = "points: expected a whole number, 1 or more;"
PACKAGES = 'packages: expected a list of packages as pip names them, like "numpy>=1.26";'
SECTION = 'section: expected chapter and section in quotes, like "8.2" or "8.2.1";'
# The text to replace, its replacement, the reported line and the message.
WRONG = [
    ("points = 5", "points = 0", 15, f"problem linear: {POINTS} got 0"),
    ("points = 5", "points = true", 15, f"problem linear: {POINTS} got true"),
    ("points = 5", 'points = "5"', 15, f'problem linear: {POINTS} got "5"'),
    ("points = 9", "points = 9.5", 27, f"problem autograd: {POINTS} got 9.5"),
    ('device = "cpu"\nforbidden = []', 'device = "gpu"\nforbidden = []', 17,
     'device: expected "cpu" or "cuda"; got "gpu"'),
    ("cpu_seconds = 10", "cpu_second = 10", 3,
     '[limits]: "cpu_second" is not a known key; did you mean cpu_seconds?'),
    ("wall_seconds = 30.0", "wall_second = 30.0", 31,
     '"wall_second" is not a known key; did you mean wall_seconds?'),
    ("wall_seconds = 30.0", "wall_seconds = 0", 31,
     "problem autograd: limits: wall_seconds: expected a number above 0; got 0"),
    ("wall_seconds = 30.0", "wall_seconds = nan", 31, "expected a number above 0; got nan"),
    ("wall_seconds = 10.0", "wall_seconds = inf", 2,
     "[limits]: wall_seconds: expected a number above 0; got inf"),
    ("cpu_seconds = 10", "cpu_seconds = -1", 3,
     "[limits]: cpu_seconds: expected a whole number above 0; got -1"),
    ("cpu_seconds = 10", "cpu_seconds = 1.5", 3,
     "[limits]: cpu_seconds: expected a whole number above 0; got 1.5"),
    ("processes = 32", "processes = true", 6,
     "[limits]: processes: expected a whole number above 0; got true"),
    ("processes = 32", 'processes = "32"', 6,
     '[limits]: processes: expected a whole number above 0; got "32"'),
    (RIGHT[RIGHT.index("[[") :], "", 1, "the file: problem is missing"),
    ("[limits]", "[limit]", 1, 'the file: "limit" is not a known key; did you mean limits?'),
    ('id = "autograd"', 'id = "linear"', 21,
     "problem linear: expected a unique id; line 12 has the same id"),
    ('id = "linear"', 'id = "../linear"', 12,
     'id: expected lower-case letters, digits and underscores, like "lr_schedule"'),
    ('id = "linear"\n', "", 11, "problem number 1: id is missing"),
    ('section = "7.1"', "section = 7.1", 16, f"{SECTION} got 7.1"),
    ('section = "7.1"', 'section = "7"', 16, f'{SECTION} got "7"'),
    ("points = 9", "point = 9", 27,
     'problem autograd: "point" is not a known key; did you mean points?'),
    ("forbidden = []", 'forbidden = "torch.nn"', 18,
     'forbidden: expected a list of names, like "torch.optim"; got "torch.nn"'),
    ('["Linear", "MLP"]', "[]", 14,
     "problem linear: functions: expected a list of names of definitions, one or more; of a "
     'program, write main(): ["main"]; got []'),
    ('module = "linear"', 'module = "linear/py"', 13,
     'expected the name of a module, like "optimizers" or "model.layers"; got "linear/py"'),
    ("MatMul = [", "Matmul = [", 35,
     'forbidden_in: expected one of its functions; got "Matmul"; did you mean MatMul?'),
    ("MatMul = [", "linear_backward = [", 35,
     'forbidden_in: expected one of its functions; got "linear_backward"'),
    (TOP, 'preload = "torch"', 1,
     'preload: expected a list of names of modules, like "einops.layers.torch"; got "torch"'),
    (TOP, 'files = ["*.json", "../a.json"]', 1,
     'files: expected a list of patterns of files in assignment/, like "*.json"; got '),
    *((TOP, f'files = ["{name}"]', 1, "files: expected a list of patterns")
      for name in ("*.py", "problems.toml", "/etc/passwd")),
    (TOP, 'packages = ["numpy >"]', 1, f"{PACKAGES} got ['numpy >']"),
    (TOP, 'packages = "numpy"', 1, f'{PACKAGES} got "numpy"'),
    (TOP, 'packages = [\n"six @ file:///six.whl",\n]', 1, f"{PACKAGES} got ['six @ file:///six.whl']"),
    ("points = 5", "points = = 5", 15, "this is not TOML: Invalid value"),
    ("points = 5", "points = 0x" + "f" * 20, 36, "this is not TOML: a whole number has more than"),
    ("points = 5", "points = " + "[" * 10_000, 36, "this is not TOML: "),
    ('forbidden = []\n\n[[', 'forbidden = []\npoints = 6\n\n[[', 19,
     "this is not TOML: Cannot overwrite a value"),
]  # fmt: skip


def test_what_is_right_is_loaded():
    listed = problems_toml.load(RIGHT, LIMITS)
    assert [problem["id"] for problem in listed["problem"]] == ["linear", "autograd"]
    assert courses.load().problem("autograd").points >= 1
    assert set(LIMITS) == set(courses.Limits.__struct_fields__)
    assert set(problems_toml.KEYS) == set(courses.Problem.__struct_fields__)


def test_a_link_leads_to_the_page_that_has_the_section():
    """A long chapter has several pages."""
    links = courses.load().handout_links("https://course.example/")
    assert links["adamw"] == "https://course.example/08_optimizers.html#section-8-2"
    assert links["lr_schedule"] == "https://course.example/08_steering.html#section-8-4"
    assert links.keys() == courses.load().sections.keys()


@pytest.mark.parametrize(
    ("old", "new", "line", "said"), WRONG, ids=[f"{line} {said[-50:]}" for *_, line, said in WRONG]
)
def test_what_is_wrong_is_said_with_its_line(old, new, line, said):
    assert RIGHT.count(old) == 1
    new = f"{new}\n{TOP}" if old == TOP else new
    found = problems_toml.load(RIGHT.replace(old, new), LIMITS)
    assert isinstance(found, problems_toml.Wrong), found
    assert said in found.text
    assert found.line == line


def test_a_table_that_is_a_list_is_said():
    first, _ = RIGHT.replace("[[problem]]", "[problem]", 1).split("[[problem]]")
    one = problems_toml.load(RIGHT.replace("[limits]  #", "[[limits]]  #"), LIMITS)
    assert one.text.startswith("limits: expected a table, [limits];")
    other = problems_toml.load(first, LIMITS)
    assert other.text.startswith("problem: expected entries, [[problem]];")


def test_the_fault_is_the_courses(typed, tiny):
    file = tiny / "assignment/problems.toml"
    line = file.read_text().partition("points = 1")[0].count("\n") + 1
    changed(file, "points = 1", 'device = "gpu"\npoints = 1')
    code, out, said = typed("grade", "nowhere.zip", "--course", tiny)
    sentence = f'{file}:{line}: problem relu: device: expected "cpu" or "cuda"; got "gpu"'
    assert (code, out) == (3, "")
    assert said == f"grader: this is a fault of the course, not of a submission: {sentence}"


def test_a_missing_course_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"expected the folder of a course; there is no .*toml"):
        courses.load(tmp_path)
    shutil.copytree(courses.load().root / "assignment", tmp_path / "assignment")
    (tmp_path / "assignment/problems.toml").write_bytes(b"# \xff\n")
    with pytest.raises(CourseFault, match=r"is not UTF-8 text: .*can't decode"):
        courses.load(tmp_path)


@given(data=st.data())
def test_any_value_in_any_place_is_taken_or_said(data):
    text = '0 -1 true "x" [] {} [1] nan 1979-05-27 [[]]'
    values = st.sampled_from([*text.split(), "{a = 1}", "{a = []}"])
    lines = RIGHT.splitlines()
    places = [i for i, line in enumerate(lines) if " = " in line and not line.endswith("[")]
    at = data.draw(st.sampled_from(places))
    lines[at] = f"{lines[at].split(' = ')[0]} = {data.draw(values)}"
    found = problems_toml.load("\n".join(lines), LIMITS)
    if isinstance(found, problems_toml.Wrong):
        assert replace(found, line=at + 1) == found
