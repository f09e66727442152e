"""Temporary folders of killed graders are removed by the next one, and those in use never are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.base import temporary_folders
from tests.grader.ordinary_user import USER
from tests.grader.processes import started

HOLDS = """
import sys
from grader.base.temporary_folders import TemporaryFolder
folder = TemporaryFolder()
open(folder.name + "/x", "w").close()
print(folder.name, flush=True)
sys.stdin.read()
"""
MAKES_AND_LOOKS = """
import os, sys
from grader.base import temporary_folders
for _ in range(300):
    with temporary_folders.TemporaryFolder() as folder:
        open(folder + "/x", "w").close()
        temporary_folders.remove_left(sys.argv[1])
        os.stat(folder + "/x")
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for temporary files, in which nobody has looked for what is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(temporary_folders, "_looked", set())
    return tmp_path


def python(program, *arguments):
    return started([sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE)


@pytest.mark.slow
def test_the_next_grader_removes_what_a_killed_one_left_and_nothing_else(place):
    killed, alive = python(HOLDS), python(HOLDS)
    left, used = (Path(one.stdout.readline().strip()) for one in (killed, alive))
    killed.kill()
    killed.communicate()
    others = [place / "grader-mine", place / "grader-tmp-notes", place / ".grader-tmp-abcdefgh-x"]
    for other in others:
        other.mkdir()
    (place / "grader-tmp-abcdefgh").symlink_to(others[0])
    assert (left / "x").exists()
    with temporary_folders.TemporaryFolder() as mine:
        assert Path(mine).parent == place
        assert {Path(mine), used} < {*place.iterdir()}
        assert not left.exists()
    alive.communicate("")
    assert {*place.iterdir()} == {*others, place / "grader-tmp-abcdefgh"}


def test_deep_folders_are_removed(place):
    deep = os.open(place, os.O_RDONLY)
    for name in ["grader-tmp-abcdefgh", *["x"] * 1_500]:
        os.mkdir(name, dir_fd=deep)
        outer, deep = deep, os.open(name, os.O_RDONLY, dir_fd=deep)
        os.close(outer)
    os.close(deep)
    temporary_folders.remove_left(str(place))
    assert list(place.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_another_users_folder_is_left_alone(place):
    folder = place / "grader-tmp-abcdefgh"
    folder.mkdir()
    os.chown(folder, int(USER), int(USER))
    temporary_folders.remove_left(str(place))
    assert folder.exists()


@pytest.mark.slow
def test_graders_that_start_at_once_keep_their_folders(place):
    """Also between the making of a folder and its lock."""
    running = [python(MAKES_AND_LOOKS, place) for _ in range(3)]
    assert [one.communicate()[0] for one in running] == [""] * 3
    assert [one.returncode for one in running] == [0] * 3
    assert list(place.iterdir()) == []


def test_a_file_system_without_locks_keeps_everything(place, monkeypatch):
    def none(descriptor, operation):
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", none)
    (place / "grader-tmp-abcdefgh").mkdir()
    with temporary_folders.TemporaryFolder() as mine:
        temporary_folders.remove_left(str(place))
        assert {path.name for path in place.iterdir()} == {"grader-tmp-abcdefgh", Path(mine).name}
