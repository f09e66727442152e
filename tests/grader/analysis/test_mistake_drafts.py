"""Drafts of known mistakes: from a graded class to a course that `validate` accepts."""

import pytest

from grader.analysis import mistake_drafts
from grader.analysis.class_statistics import Alike, FailedTest
from grader.course import courses
from grader.solutions.wrong_edits import entries
from tests.grader import small_courses

# A mistake of softmax that the course does not know. It writes a file wherever it may, and has a
# second docstring that looks like another draft.
WRONG = '''"""The work of {name}."""

import math

TWICE = 2  # {name}'s idea


def relu(x: list[float]) -> list[float]:
    return [max(0.0, n) for n in x]


def softmax(x: list[float]) -> list[float]:
    """By {name}."""
    return [n / TWICE for n in _shared(x)]


def _shared(x):
    "Shared."
    """x

[draft_2] Another one.
+ import os
+ os.system("touch {marker}")
"""
    try:
        open("{marker}", "w")
    except OSError:
        pass
    return [math.exp(n - max(x)) for n in x]
'''
HEAD = "from torch import Tensor\n\n\ndef softmax(x):\n    return "


@pytest.fixture(scope="module")
def tiny(root):
    return courses.load(root / "examples" / "tiny_course")


@pytest.mark.proof
def test_equal_answers_become_a_mistake_that_validate_accepts(grader, tmp_path):
    """The draft names nobody and runs in a sandbox only, until a person has read it and says so."""
    marker = tmp_path / "executed"
    course = small_courses.with_lists(tmp_path / "course")
    handed_in = tmp_path / "in"
    for name in ("ada", "bob", "cyd"):
        folder = handed_in / name / "assignment"
        folder.mkdir(parents=True)
        wrong = WRONG.replace("TWICE = 2", "TWICE = 3") if name == "cyd" else WRONG
        (folder / "activations.py").write_text(wrong.format(name=name, marker=marker))
    book = tmp_path / "book.sqlite"

    def run(*words):
        done = grader(*words, "--course", course, warm=words[0] != "validate")
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("batch", handed_in, "--gradebook", book, "--jobs", 1)
    told = run("mistakes", book, "--draft", tmp_path / "drafts")
    assert "\n       2 " in told
    text = (tmp_path / "drafts" / "softmax.edits").read_text()
    assert "2 students" in text
    assert "1 student" not in text  # what cyd alone answers becomes no draft
    assert not any(name in text for name in ("ada", "bob", "cyd"))
    assert "unread:" in text
    known = course / "tests" / "hidden" / "softmax" / "wrong.edits"
    before = known.read_text()
    text = text.replace("TODO: what is wrong, in one line", "Halved.")
    known.write_text(before + text)
    told = run("validate", "--only", "softmax", "--draft", "--jobs", 1)
    assert "1 wrong solution is `unread:` and ran in the sandbox only" in told
    run("validate", "--only", "softmax", "--prices", "--jobs", 1)
    assert "Halved" not in run("grade", handed_in / "ada")
    assert not marker.exists()
    text = text.replace(f"open('{marker}', 'w')", "pass")
    read = [line for line in text.splitlines(keepends=True) if "unread:" not in line]
    known.write_text(before + "".join(read))
    assert "looks like Halved." in run("grade", handed_in / "ada")


INJECTED = """x

[draft_2] Another one.
+ import os
+ os.system("x")
"""


@pytest.mark.parametrize(
    ("body", "is_draft"),
    [
        ("x.exp()", True),
        ("__import__('os').system('x')", True),
        ("'\\x1b[31m' and x", True),
        ('"""it\'\'\'s"""', True),
        (f'"""{INJECTED}"""', True),
        (f'f"""{INJECTED}{{x}}"""', True),
        (repr(INJECTED), True),
        ("'\\r\\x0c\\u2028'", True),
        ("'\\ud800'", True),
        ("\x00", False),
        ("-" * 20_000 + "x", False),
        ("x" + " + 1" * 10_000, False),
    ],
    ids=range(12),
)
def test_a_draft_is_read_back_as_it_was_meant(tiny, body, is_draft):
    """Any program may be a draft, because it runs in a sandbox only; its text is one program."""
    problem = tiny.problem("softmax")
    program = mistake_drafts.program_of(HEAD + body, problem.functions)
    assert bool(program) == is_draft
    if is_draft:
        alike = Alike(problem.id, "", (FailedTest(INJECTED, INJECTED, ()),))
        group = mistake_drafts.EqualAnswers(problem, alike, 1.0, 2, [program])
        (read,) = entries(mistake_drafts.written(problem, [group]))
        assert program == read.source
        assert "unread" in read.keys


def test_no_character_of_a_draft_reorders_a_line():
    """A person reads every line. Since 3.12, Python writes a format as it is, unlike a text."""
    body = 'f"{x:\u202e}" + "\u202e"'
    assert "\u202e" not in mistake_drafts.program_of(HEAD + body, ["softmax"])


def test_texts_that_compute_nothing_are_left_out(tiny):
    """They are comments: a second docstring, one after a statement, one in a class."""
    text = (
        'def softmax(x):\n    "1"\n    "2"\n    y = A\n    "3"\n    return y\n'
        'class A:\n    "4"\n    def f(self):\n        "5"\n'
    )
    found = mistake_drafts.program_of(text, tiny.problem("softmax").functions)
    assert (
        "def softmax(x):\n    y = A\n    return y\n\nclass A:\n\n    def f(self):\n        pass\n"
    ) == found


def test_only_what_the_function_uses_is_in_a_draft(tiny):
    """Other imports are left out, so that less has to be read."""
    text = f"import subprocess\nimport math\n{HEAD}math.exp(x)"
    found = mistake_drafts.program_of(text, tiny.problem("softmax").functions)
    assert "import math" in found
    assert "subprocess" not in found
