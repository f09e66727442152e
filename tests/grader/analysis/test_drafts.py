"""Drafts of known mistakes: from a graded class to a course that `validate` accepts."""

import shutil

import pytest

from grader.analysis import drafts
from grader.course import courses

# A mistake of softmax that tiny_course does not know: the scores are shifted twice.
WRONG = '''"""The work of {name}."""

from torch import Tensor

TWICE = 2  # {name}'s idea


def relu(x: Tensor) -> Tensor:
    return x.clamp(min=0)


def softmax(x: Tensor) -> Tensor:
    """By {name}."""
    return _shared(x) / TWICE


def _shared(x):
    return (x - x.amax(dim=-1, keepdim=True)).exp()
'''
HEAD = "from torch import Tensor\n\n\ndef softmax(x):\n    return "


@pytest.fixture(scope="module")
def tiny(root):
    return courses.load(root / "examples" / "tiny_course")


@pytest.mark.slow
def test_equal_answers_become_a_mistake_that_validate_accepts(grader, root, tmp_path):
    """Three students write the same mistake; its draft names nobody and is then recognised."""
    course = shutil.copytree(root / "examples" / "tiny_course", tmp_path / "course")
    handed_in = tmp_path / "in"
    handed_in.mkdir()
    for name in ("ada", "bob", "cyd"):
        (handed_in / f"{name}.py").write_text(WRONG.format(name=name))
        folder = handed_in / name / "assignment"
        folder.mkdir(parents=True)
        (handed_in / f"{name}.py").rename(folder / "activations.py")
    book = tmp_path / "book.sqlite"

    def run(*words):
        done = grader(*map(str, words), "--course", str(course))
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("batch", handed_in, "--gradebook", book, "--jobs", 1)
    told = run("mistakes", book, "--draft", tmp_path / "drafts")
    assert "3" in told
    text = (tmp_path / "drafts" / "softmax.edits").read_text()
    assert "3 students" in text
    assert not any(name in text for name in ("ada", "bob", "cyd"))
    known = course / "solutions" / "mistakes" / "softmax.edits"
    known.write_text(
        known.read_text() + text.replace("TODO: what is wrong, in one line", "Halved.")
    )
    run("validate", "--only", "softmax", "--draft", "--jobs", 1)
    assert (
        "looks like Halved."
        in grader("grade", str(handed_in / "ada"), "--course", str(course)).stdout
    )


@pytest.mark.parametrize(
    ("body", "is_draft"),
    [
        ("x.exp()", True),
        ("__import__('os').system('x')", False),
        ("open('/etc/passwd')", False),
        ("x.__class__.__base__", False),
        ("torch.load('x')", False),
        ("getattr(x, 'exp')()", False),
        ("'\\x1b[31m' and x", True),
        ('"""it\'\'\'s"""', True),
        ("\x00", False),
        ("-" * 20_000 + "x", False),
    ],
)
def test_only_a_program_that_computes_becomes_a_draft(tiny, body, is_draft):
    """Nothing that reads files, imports at will or breaks the format of the draft."""
    assert bool(drafts.program_of(HEAD + body, tiny.problem("softmax"), tiny)) == is_draft


@pytest.mark.parametrize(
    ("first_line", "is_draft"),
    [
        ("import math", True),
        ("import torch.nn.functional as math", True),
        ("import os as math", False),
        ("from os import path as math", False),
        ("from . import math", False),
        ("import subprocess", True),  # the function does not use it, so it is left out
    ],
)
def test_what_a_draft_imports(tiny, first_line, is_draft):
    """The course's packages and a few modules that cannot do harm."""
    text = f"{first_line}\n{HEAD}math.exp(x)"
    found = drafts.program_of(text, tiny.problem("softmax"), tiny)
    assert bool(found) == is_draft
    assert "subprocess" not in found
