"""Small courses without torch, in plain Python and with NumPy, that `grader validate` accepts."""

import shutil
from pathlib import Path

from grader.course import courses
from grader.publish import new_course, stub_files

MODEL = Path(__file__).resolve().parents[2] / "examples" / "plain_course"
LIMITS = "\n[limits]\nmemory_bytes = 536_870_912\n"


def plain_python(folder: Path) -> Path:
    """Write the course that `grader new --plain` writes; return its folder."""
    new_course.write(folder, plain=True)
    return folder


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
# How relu becomes a function of an array, with the tests and the mistake of it.
IN_NUMPY = {
    "packages = []": 'packages = ["numpy"]',
    "import math\n": "import math\n\nimport numpy as np\n",
    '"""relu: the handout\'s example."""\n': '"""relu."""\n\nimport numpy as np\n',
    "def relu(x: list[float]) -> list[float]": "def relu(x: np.ndarray) -> np.ndarray",
    "[max(0.0, n) for n in x]": "np.maximum(x, 0.0)",
    "max(0.0, n)": "np.maximum(x, 0.0)",
    "abs(n)": "np.abs(x)",
    "[rng.gauss(0, 1) for _ in range(9)]": "rng.normal(size=9)",
    "rng.gauss(0, 1)": "float(rng.normal())",
    "[n if n >= 0 else 0.0 for n in x]": "np.where(x >= 0, x, 0.0)",
    "relu([-1.0, 0.0, 2.0])": "relu(np.array([-1.0, 0.0, 2.0]))",
    ", [0.0, 0.0, 2.0]": ", np.array([0.0, 0.0, 2.0])",
    'of="relu"': 'of="relu", atol=0',
    "expect.value(student.activations.relu": "expect.array(student.activations.relu",
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
            _mistake(*change, mistake) for mistake, change in MISTAKES_OF_LISTS[name].items()
        )
    _written(folder, "activations", ("relu", "softmax"), files)
    listed = folder / "assignment" / "problems.toml"
    before, softmax, after = listed.read_text().partition('id = "softmax"')
    listed.write_text(before + softmax + after.replace("points = 1", "points = 2"))
    stub_files.write(courses.load(folder))
    return folder


def with_numpy(folder: Path) -> Path:
    """Write the course of `with_lists` with relu in NumPy; return its folder."""
    for path in with_lists(folder).rglob("*.*"):
        text = path.read_text()
        for old, new in IN_NUMPY.items():
            text = text.replace(old, new)
        path.write_text(text)
    return folder


def _public(module: str, name: str, call: str, expected: str) -> str:
    return (
        f'"""{name}: the handout\'s example."""\n\nfrom kit import expect\n\n\n'
        f'def test_the_worked_example(student):\n    """The worked example."""\n'
        f'    expect.value(student.{module}.{call}, {expected}, of="{name}")\n'
    )


def _mistake(old: str, new: str, name: str) -> str:
    keys = "hint: read the text again\nprice: this is the whole problem\n"
    return f"[{name}] It is wrong.\n{keys}- {old}\n+ {new}\n"


def _written(folder: Path, module: str, functions: tuple[str, ...], files: dict[str, str]) -> None:
    """Write a course: these files, and what else the model of a plain course has."""
    own = ("README.md", "problems.toml", "reference", "hidden", "public", "__pycache__")
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns(*own), dirs_exist_ok=True)
    listed = f"packages = []\n{LIMITS}"
    for number, function in enumerate(functions, 1):
        listed += f'\n[[problem]]\nid = "{function}"\nmodule = "{module}"\n'
        listed += f'functions = ["{function}"]\npoints = 1\nsection = "1.{number}"\n'
    for path, text in {"assignment/problems.toml": listed, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
