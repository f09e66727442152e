"""Small courses without torch: in plain Python, and with NumPy.

Their tests and solutions are complete, so that `grader validate` accepts them.
"""

from pathlib import Path

from grader.solutions.edits import Change, Edit, written

LIMITS = """
[limits]
wall_seconds = 40.0
cpu_seconds = 10
memory_bytes = 536_870_912
device_memory_bytes = 1
processes = 32
file_bytes = 67_108_864
output_bytes = 1_048_576
submission_seconds = 60.0
"""
CONFTEST = '"""The fixtures of every test."""\n\npytest_plugins = ["kit.fixtures"]\n'
WORDS = '''"""Chapter 1: words and numbers."""


def count_words(text: str) -> dict[str, int]:
    """How often each word occurs; words are separated by blanks, and case does not matter.

    Example:
        "A b a" has "a" twice and "b" once.

    Handout §1.1 · `python -m assignment check count_words`
    """
    # BEGIN SOLUTION(count_words)
    counts: dict[str, int] = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts
    # END SOLUTION


def shifted(text: str, by: int) -> str:
    """The text with each letter from a to z moved in the alphabet, from z back to a.

    Example:
        "az" moved by 1 is "ba".

    Handout §1.2 · `python -m assignment check shifted`
    """
    # BEGIN SOLUTION(shifted)
    first = ord("a")
    return "".join(
        chr((ord(c) - first + by) % 26 + first) if "a" <= c <= "z" else c for c in text
    )
    # END SOLUTION


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few spans (start, end) as possible, in order; the end is excluded.

    Example:
        (3, 5), (0, 2) and (1, 3) are (0, 5) together.

    Handout §1.3 · `python -m assignment check merged`
    """
    # BEGIN SOLUTION(merged)
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
    # END SOLUTION


def mean_length(words: list[str]) -> float:
    """The mean number of letters of the words.

    Example:
        "a" and "bcd" have a mean of 2.

    Handout §1.4 · `python -m assignment check mean_length`
    """
    # BEGIN SOLUTION(mean_length)
    return sum(map(len, words)) / len(words)
    # END SOLUTION
'''
FUNCTIONS = ("count_words", "shifted", "merged", "mean_length")

HIDDEN_WORDS = {
    "count_words": '''
@pytest.mark.harm("wrong number")
def test_words_in_any_case(student, rng):
    """The counts do not depend on the case of a word."""
    words = [rng.choice(["a", "B", "b", "cc"]) for _ in range(20)]
    got = student.words.count_words("  ".join(words))
    expect.value(got, dict(Counter(map(str.lower, words))), of="count_words", hint="lower()")

''',
    "shifted": '''
@pytest.mark.harm("wrong number")
def test_letters_only(student, rng):
    """Signs and blanks stay where they are."""
    by = rng.randrange(1, 25)
    alphabet = string.ascii_lowercase
    moved = alphabet[by:] + alphabet[:by]
    got = student.words.shifted(f"{alphabet}, {alphabet}!", by)
    expect.value(got, f"{moved}, {moved}!", of="shifted", hint="which characters move?")
''',
    "merged": '''
@pytest.mark.harm("wrong number")
def test_spans_that_touch_or_overlap(student, rng):
    """Spans in any order are joined where no number lies between them."""
    starts = [rng.randrange(60) for _ in range(8)]
    spans = [(start, start + 1 + rng.randrange(5)) for start in starts] + [(70, 90), (72, 75)]
    rng.shuffle(spans)
    numbers = sorted({n for start, end in spans for n in range(start, end)})
    first = [n for n in numbers if n - 1 not in numbers]
    last = [n for n in numbers if n + 1 not in numbers]
    expected = [(start, end + 1) for start, end in zip(first, last, strict=True)]
    expect.value(student.words.merged(spans), expected, of="merged", hint="is one inside another?")
''',
    "mean_length": '''
@pytest.mark.harm("wrong number")
def test_the_mean(student, rng):
    """The mean of words of different lengths."""
    words = ["x" * rng.randrange(1, 9) for _ in range(7)]
    expected = statistics.mean(map(len, words))
    got = student.words.mean_length(words)
    expect.number(got, expected, of="mean_length", tolerance=1e-9, hint="a sum over a number")
''',
}
PUBLIC_WORDS = {
    "count_words": ('count_words("A b a")', '{"a": 2, "b": 1}'),
    "shifted": ('shifted("az", 1)', '"ba"'),
    "merged": ("merged([(3, 5), (0, 2), (1, 3)])", "[(0, 5)]"),
    "mean_length": ('mean_length(["a", "bcd"])', "2.0"),
}
MISTAKES_OF_WORDS = {
    "count_words": ("text.lower().split()", "text.split()"),
    "shifted": ("% 26 + first", "+ first"),
    "merged": ("max(end, found[-1][1])", "end"),
    "mean_length": ("/ len(words)", "/ (len(words) + 1)"),
}

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
    expect.array(got, np.array([[-1.0, 1.0]]), of="centred", inputs="1, 3")
'''


def plain_python(folder: Path) -> Path:
    """Write a course in plain Python with four problems; return its folder."""
    files = {"solutions/reference/words.py": WORDS}
    imports = "import statistics\nimport string\nfrom collections import Counter\n\nimport pytest\n"
    kit = "\nfrom kit import expect\n\n"
    for name, hidden in HIDDEN_WORDS.items():
        call, expected = PUBLIC_WORDS[name]
        files[f"tests/hidden/{name}/test_hidden.py"] = f'"""{name}."""\n\n{imports}{kit}{hidden}'
        files[f"tests/public/test_{name}.py"] = _public("words", name, call, expected)
        files[f"tests/hidden/{name}/wrong.edits"] = _mistake(*MISTAKES_OF_WORDS[name])
    return _written(folder, [], "words", FUNCTIONS, files)


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
    return folder


def _public(module: str, name: str, call: str, expected: str) -> str:
    return (
        f'"""{name}: the handout\'s example."""\n\nfrom kit import expect\n\n\n'
        f'def test_the_worked_example(student):\n    """The worked example."""\n'
        f'    expect.value(student.{module}.{call}, {expected}, of="{name}")\n'
    )


def _mistake(old: str, new: str, name: str = "wrong") -> str:
    keys = {"hint": "read the text again", "price": "this is the whole problem"}
    change = Change(old, new)
    return written(Edit(name=name, says="It is wrong.", keys=keys, changes=(change,)))


def _written(
    folder: Path,
    packages: list[str],
    module: str,
    functions: tuple[str, ...],
    files: dict[str, str],
) -> Path:
    """Write a course's files, and those that both courses have alike."""
    listed = f"packages = {packages!r}\n{LIMITS}".replace("'", '"')
    for number, function in enumerate(functions, 1):
        listed += f'\n[[problem]]\nid = "{function}"\nmodule = "{module}"\n'
        listed += f'functions = ["{function}"]\npoints = 1\nsection = "1.{number}"\n'
    alike = {
        "assignment/problems.toml": listed,
        "assignment/__init__.py": '"""A small course."""\n',
        "assignment/__main__.py": MAIN,
        "tests/__init__.py": '"""Tests."""\n',
        "tests/probes/__init__.py": '"""No probes."""\n',
        "tests/conftest.py": CONFTEST,
        "handout/index.md": "# A small course\n",
    }
    for path, text in {**alike, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


MAIN = '''"""`python -m assignment` shows your progress."""

import sys
from pathlib import Path

from kit import progress

if __name__ == "__main__":
    sys.exit(progress.main(Path(__file__).absolute().parents[1], sys.argv[1:]))
'''
