"""Small courses without torch, in plain Python and with NumPy, that `grader validate` accepts."""

import shutil
from pathlib import Path

from grader.course import courses
from grader.publish import new_course, stub_files

MODEL = Path(__file__).resolve().parents[2] / "examples" / "plain_course"
LIMITS = """
[limits]
wall_seconds = 40.0
cpu_seconds = 10
memory_bytes = 536_870_912
processes = 32
file_bytes = 67_108_864
submission_seconds = 60.0
"""
ROWS = '''"""Chapter 1: rows of numbers."""

import numpy as np


def centred(x: np.ndarray) -> np.ndarray:
    """The rows, each without its mean.

    Example:
        The row (1, 3) becomes (-1, 1).

    Handout §1.1 · `python -m assignment check centred`
    """
    # BEGIN SOLUTION(centred)
    return x - x.mean(axis=-1, keepdims=True)
    # END SOLUTION
'''
HIDDEN_ROWS = '''
@pytest.mark.harm("wrong number")
def test_each_row_has_the_mean_zero(student, rng):
    """Each row is centred on its own."""
    x = rng.normal(size=(3, 5))
    expected = np.stack([row - row.sum() / 5 for row in x])
    got = student.rows.centred(x)
    expect.array(got, expected, of="centred", atol=1e-12, hint="which axis?")
'''
PUBLIC_ROWS = '''"""centred: the handout's example."""

import numpy as np

from kit import expect


def test_the_worked_example(student):
    """The row (1, 3)."""
    got = student.rows.centred(np.array([[1.0, 3.0]]))
    expect.array(got, np.array([[-1.0, 1.0]]), of="centred", atol=0, inputs="1, 3")
'''


def plain_python(folder: Path) -> Path:
    """Write the course that `grader new --plain` writes; return its folder."""
    new_course.write(folder, plain=True)
    return folder


def with_numpy(folder: Path) -> Path:
    """Write a course with one problem for NumPy; return its folder."""
    imports = "import numpy as np\nimport pytest\n\nfrom kit import expect\n\n"
    files = {
        "solutions/reference/rows.py": ROWS,
        "tests/hidden/centred/wrong.edits": _mistake("axis=-1", "axis=0"),
        "tests/hidden/centred/test_hidden.py": f'"""centred."""\n\n{imports}{HIDDEN_ROWS}',
        "tests/public/test_centred.py": PUBLIC_ROWS,
    }
    return _written(folder, ["numpy"], "rows", ("centred",), files)


LISTS = '''"""Chapter 1: two functions that nearly every network has."""

import math


def relu(x: list[float]) -> list[float]:
    """The larger of x and 0, entry by entry.

    Example:
        relu of (-1, 0, 2) is (0, 0, 2).

    Handout §1.1 · `python -m assignment check relu`
    """
    # BEGIN SOLUTION(relu)
    return [max(0.0, n) for n in x]
    # END SOLUTION


def softmax(x: list[float]) -> list[float]:
    """Positive numbers that add up to 1, in proportion to exp(x).

    Scores may be large: exp(1000) overflows every float, but the result must still be right.

    Example:
        softmax of (0, 0) is (1/2, 1/2).

    Handout §1.2 · `python -m assignment check softmax`
    """
    # BEGIN SOLUTION(softmax)
    e = [math.exp(n - max(x)) for n in x]
    return [n / sum(e) for n in e]
    # END SOLUTION
'''
HIDDEN_LISTS = {
    "relu": '''
@pytest.mark.harm("wrong number")
def test_relu_of_numbers_of_either_sign(student, rng):
    """Negative numbers become 0; all others stay the same."""
    x = [rng.gauss(0, 1) for _ in range(9)]
    expected = [n if n >= 0 else 0.0 for n in x]
    expect.value(student.activations.relu(x), expected, of="relu", hint="max(0, x)")
''',
    "softmax": '''
def check(student, x, hint):
    """Compare softmax(x) with its definition."""
    scaled = [math.exp(n - statistics.mean(x)) for n in x]
    got = student.activations.softmax(x)
    expect.kind(got, list, of="softmax")
    expect.value(len(got), len(x), of="softmax", hint=hint)
    for one, other in zip(got, scaled, strict=True):
        expect.number(one, other / math.fsum(scaled), of="softmax", tolerance=1e-9, hint=hint)


# Stays: this test checks the formula; the other test is about how the formula is computed.
@pytest.mark.harm("wrong number")
def test_softmax_adds_up_to_1(student, rng):
    """The entries add up to 1."""
    check(student, [rng.gauss(0, 1) for _ in range(5)], "what is summed over?")


@pytest.mark.harm("wrong number")
def test_softmax_of_large_scores(student, rng):
    """Scores of 1000 and more give neither inf nor NaN."""
    x = [1000 + rng.gauss(0, 1) for _ in range(4)]
    check(student, x, "softmax is the same for x and x - max(x)")
''',
}
PUBLIC_LISTS = {
    "relu": ("relu([-1.0, 0.0, 2.0])", "[0.0, 0.0, 2.0]"),
    "softmax": ("softmax([0.0, 0.0])", "[0.5, 0.5]"),
}
MISTAKES_OF_LISTS = {
    "relu": {"absolute": ("max(0.0, n)", "abs(n)")},
    "softmax": {"not_shifted": ("n - max(x)", "n"), "not_divided": ("n / sum(e)", "n")},
}


def with_lists(folder: Path) -> Path:
    """Write the tiny course without torch: same problems, points and names; return its folder."""
    files = {"solutions/reference/activations.py": LISTS}
    imports = "import math\nimport statistics\n\nimport pytest\n\nfrom kit import expect\n"
    for name, hidden in HIDDEN_LISTS.items():
        call, expected = PUBLIC_LISTS[name]
        files[f"tests/hidden/{name}/test_hidden.py"] = f'"""{name}."""\n\n{imports}\n{hidden}'
        files[f"tests/public/test_{name}.py"] = _public("activations", name, call, expected)
        files[f"tests/hidden/{name}/wrong.edits"] = "\n".join(
            _mistake(*change, name=mistake) for mistake, change in MISTAKES_OF_LISTS[name].items()
        )
    _written(folder, [], "activations", ("relu", "softmax"), files)
    listed = folder / "assignment" / "problems.toml"
    before, softmax, after = listed.read_text().partition('id = "softmax"')
    listed.write_text(before + softmax + after.replace("points = 1", "points = 2"))
    stub_files.write(courses.load(folder))
    return folder


def _public(module: str, name: str, call: str, expected: str) -> str:
    return (
        f'"""{name}: the handout\'s example."""\n\nfrom kit import expect\n\n\n'
        f'def test_the_worked_example(student):\n    """The worked example."""\n'
        f'    expect.value(student.{module}.{call}, {expected}, of="{name}")\n'
    )


def _mistake(old: str, new: str, name: str = "wrong") -> str:
    keys = "hint: read the text again\nprice: this is the whole problem\n"
    return f"[{name}] It is wrong.\n{keys}- {old}\n+ {new}\n"


def _written(
    folder: Path,
    packages: list[str],
    module: str,
    functions: tuple[str, ...],
    files: dict[str, str],
) -> Path:
    """Write a course: these files, and what else the model of a plain course has."""
    own = ("README.md", "problems.toml", "reference", "hidden", "public", "__pycache__")
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns(*own), dirs_exist_ok=True)
    listed = f"packages = {packages!r}\n{LIMITS}".replace("'", '"')
    for number, function in enumerate(functions, 1):
        listed += f'\n[[problem]]\nid = "{function}"\nmodule = "{module}"\n'
        listed += f'functions = ["{function}"]\npoints = 1\nsection = "1.{number}"\n'
    for path, text in {"assignment/problems.toml": listed, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
