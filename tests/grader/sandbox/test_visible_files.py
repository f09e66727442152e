"""What a box shows does not depend on where the grader is installed, or for whom it is readable."""

import os
import shutil
from pathlib import Path

import pytest

from grader.sandbox import levels, visible_files
from grader.sandbox.levels import bubblewrap
from grader.sandbox.sandbox import Sandbox
from tests.grader.in_the_sandbox import LEVELS, PLAIN, answer

pytestmark = pytest.mark.slow


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """An installation of the grader and the course that is readable only by its owner."""
    home = tmp_path / "source"
    for folder in visible_files.WORKER:
        shutil.copytree(folder, home / "grader" / folder.name)
    shutil.copytree(PLAIN.tests / "probes", home / "tests" / "probes")
    for path in [home, *home.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    monkeypatch.setattr(
        visible_files, "WORKER", tuple(home / "grader" / p.name for p in visible_files.WORKER)
    )
    before = os.umask(0o077)
    yield home
    os.umask(before)


@pytest.mark.parametrize("level", LEVELS)
def test_the_worker_reads_what_only_the_grader_may_read(closed, level):
    """Gradescope's setup.sh makes the grader and the course private to root."""
    options = {"packages": PLAIN.packages, "preload": PLAIN.imported_first}
    with Sandbox(closed / "tests", isolation=level, scratch_bytes=2**20, **options) as sandbox:
        assert 1 == answer(sandbox, "def f(): return 1")


def test_what_is_tried_is_the_box_that_is_used(tmp_path, monkeypatch):
    """The interpreter may be below the folder that the box replaces by its own."""
    copy = tmp_path / "bin" / visible_files.interpreter().name
    copy.parent.mkdir()
    shutil.copy(visible_files.interpreter(), copy)
    assert copy.is_relative_to(bubblewrap.SCRATCH)
    monkeypatch.setattr(visible_files, "interpreter", lambda: copy)
    assert levels.LEVELS["bubblewrap"].why_not() is None


def test_a_box_that_cannot_be_built_is_not_used(tmp_path, monkeypatch):
    """What the box would show is missing, so the reason says which step of bubblewrap fails."""
    monkeypatch.setattr(visible_files, "library_folders", lambda: [Path("/does/not/exist")])
    assert "Can't find source path /does/not/exist" in str(levels.LEVELS["bubblewrap"].why_not())
