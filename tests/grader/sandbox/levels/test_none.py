"""Without isolation."""

from contextlib import contextmanager

import pytest
import torch

from grader.base.errors import Crashed
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from tests.grader.in_the_sandbox import COURSE, LIMITS, MIB, answer, ask

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("none")]  # for its sandbox


@pytest.fixture(scope="module")
def bare():
    """A worker without isolation."""
    with Sandbox(COURSE.tests, isolation="none", scratch_bytes=MIB) as running:
        yield running


@contextmanager
def bare_session(bare, source):
    """A session of a package with an __init__.py, which replaces the course's."""
    sources = {"assignment/__init__.py": b"", "assignment/m.py": source}
    made = Session(bare, sources, LIMITS, seed=0, forbidden=[])
    try:
        yield made
    finally:
        made.close()


def test_without_isolation_it_runs_and_says_so(bare):
    """A laptop without bubblewrap gives the same answers, and every report shows the level."""
    assert bare.isolation == "none"
    with bare_session(bare, b"def f(x):\n    return x + 1\n") as made:
        assert [3.0] == ask(made, torch.tensor([2.0])).tolist()
    ended = pytest.raises(Crashed, match=r"^its process exited with code 3 before it answered$")
    with bare_session(bare, b"import os\ndef f():\n    os._exit(3)\n") as made, ended:
        ask(made)
    with bare_session(
        bare, b"import os\ndef f():\n    return os.listdir(os.environ['TMPDIR'])\n"
    ) as made:
        assert ["submission"] == ask(made)


def test_without_isolation_the_students_modules_are_graded(bare):
    """The stubs next to the tests are not graded instead."""
    assert answer(bare, "def f():\n    return 1\n") == 1
