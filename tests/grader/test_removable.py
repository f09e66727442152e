"""What is on its own: deleting its files removes it, and all else works."""

import re
import shutil
import sys

import pytest

from tests.grader import small_courses
from tests.grader.processes import ran

# The files of each below grader/, and a word that no other file there has.
PARTS = {
    "ray": (("classroom/removable/ray_cluster.py",), r"\bray\b"),
    "sources": (("commands/export_options/sources_option.py",), "jplag|compare50"),
    "moodle": (("classroom/intake/removable/moodle_download.py",), "moodle"),
    "canvas": (
        ("classroom/canvas_api.py", "classroom/canvas_csv.py", "classroom/canvas_push.py",
         "commands/removable/push_command.py", "commands/export_options/canvas_option.py",
         "classroom/intake/removable/canvas_download.py", "course/removable/canvas_rules.py"),
        "canvas"),
    "classroom50": (
        ("classroom/classroom50_scores.py", "commands/export_options/classroom50_option.py",
         "course/removable/classroom50_rules.py"), "classroom ?50"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_no_other_file_names_it(root, name):
    """The rest of the program finds it, and does not know it."""
    own, word = PARTS[name]
    own = {root / "grader" / path for path in own}
    others = [p for p in (root / "grader").rglob("*.py") if own.isdisjoint([p, *p.parents])]
    assert [] == [p for p in others if re.search(word, p.read_text(), re.IGNORECASE)]


def without(names, root, folder):
    """Copy the program without some of its parts; return what runs it."""
    for copied in ("grader", "kit"):
        shutil.copytree(root / copied, folder / copied)
    for path in [path for name in names for path in PARTS[name][0]]:
        gone = folder / "grader" / path
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()

    def run(*arguments):
        command = [sys.executable, "-m", "grader", *map(str, arguments)]
        done = ran(command, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.mark.slow
@pytest.mark.proof  # `make test` deletes all of them together
@pytest.mark.parametrize("name", PARTS)
def test_it_can_be_deleted(root, tmp_path, name):
    assert "autograde" in without([name], root, tmp_path)("--help")


@pytest.mark.slow
def test_all_can_be_deleted(root, tmp_path):
    run = without(PARTS, root, tmp_path)
    course = small_courses.plain_python(tmp_path / "course")
    given = shutil.copytree(course / "solutions" / "reference", tmp_path / "given" / "assignment")
    words = ("grade", given.parent, "--course", course, "--only", "count_words")
    assert "score 1.00 of 1" in run(*words, "--isolation", "none", "--markdown", tmp_path / "r.md")
    assert "1 of 1 points" in (tmp_path / "r.md").read_text()
