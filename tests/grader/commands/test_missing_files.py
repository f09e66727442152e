"""A course that lacks a file: each command works without it, or says in a sentence what is missing.

The commands and their calls are those of test_outputs.
"""

import shutil

import pytest

from grader.classroom import gradebook
from tests.grader import small_courses
from tests.grader.commands.test_output_paths import CALLS, call, places  # noqa: F401  fixtures
from tests.grader.sampling import every

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("processes_start_at_once")]

# The files of a course. `make test` takes the first, without which most commands fail.
MISSING = [
    "solutions/reference/activations.py",
    "tests/hidden/relu/wrong.edits",
    "tests/hidden/softmax",
    "tests/hidden/softmax/right.py",
    "handout",
    "bundle",
    "bundle/student",
    "tests/public",
    "tests/hidden",
    "tests/hidden/relu/test_hidden.py",
    "tests/probes",
    "tests/conftest.py",
    "solutions/reference",
    "solutions",
    "assignment/activations.py",
    "assignment",
    "bundle/student/pyproject.toml",
]
# `isolation` reads no course, and MORE contains more thorough calls of `validate`.
LEFT_OUT = ("isolation", "validate")
MORE = [
    ["validate", "--only", "relu", "--draft", "--mutants", "--jobs", "1"],
    ["validate", "--only", "relu", "--quick", "--jobs", "1"],
    ["grade", "SUBMISSION", "--isolation", "none", "--html", "OUT"],
    ["stubs", "--check"],
    ["release", "gradescope", "OUT"],
    ["export", "BOOK", "--html", "ABSENT"],
]


# Further files of the tiny course without torch: every one that a course may have is there.
OPTIONAL = {
    "tests/hidden/softmax/right.py": (
        "# [total] The sum is computed once.\ndef softmax(x):\n"
        "    e = [math.exp(n - max(x)) for n in x]\n    total = sum(e)\n"
        "    return [n / total for n in e]\n"
    ),
    "bundle/student/pyproject.toml": (
        '[project]\nname = "lists"\nversion = "1"\ndependencies = ["pytest>=8.2"]\n'
    ),
}


@pytest.fixture
def course(tmp_path):
    """The tiny course without torch."""
    folder = small_courses.with_lists(tmp_path / "course")
    for path, text in OPTIONAL.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize("missing", every(18, MISSING))
def test_a_missing_file_is_a_sentence(call, places, course, capfd, missing):  # noqa: F811
    path = course / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with gradebook.reading(places["BOOK"]) as book:
        assert book.students.all()
    calls = [[name, *words] for name, words in CALLS.items() if name not in LEFT_OUT]
    for name, *words in [*calls, *MORE]:
        code, said = call(name, *words)
        printed = "".join(capfd.readouterr()) + said
        assert "Traceback" not in printed, (name, words, printed)
        assert code in (0, 1, 2, 3)
        assert code == 0 or printed.strip(), (name, words)
        places["OUT"].unlink(missing_ok=True)
