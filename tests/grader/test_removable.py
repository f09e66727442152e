"""What is on its own: deleting its files removes it, and all else works."""

import re
import shutil
import sys

import pytest

from tests.grader import small_courses
from tests.grader.processes import ran
from tests.grader.sampling import every

# The files of each below grader/, and a word that no other file there has.
PARTS = {
    "junit": (("report/more/junit.py",), "junit(?!xml|-xml)"),
    "prairielearn": (("gradescope/more/prairielearn.py",), "prairielearn"),
    "autolab": (("gradescope/more/autolab.py",), "autolab"),
    "ray": (("classroom/more/ray.py",), r"\bray\b"),
    "sources": (("commands/exports/sources.py",), "jplag|compare50"),
    "moodle": (("classroom/intake/more/moodle.py",), "moodle"),
    "canvas": (
        (
            *("classroom/canvas_api.py", "classroom/canvas_table.py", "classroom/pushing.py"),
            *("commands/more/push.py", "commands/exports/canvas.py"),
            *("classroom/intake/more/canvas.py", "course/more/canvas.py"),
        ),
        "canvas",
    ),
    "classroom50": (
        (
            *("classroom/classroom50.py", "commands/exports/classroom50.py"),
            "course/more/classroom50.py",
        ),
        "classroom ?50",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_no_other_file_names_it(root, name):
    """The rest of the program finds it, and does not know it."""
    own, word = PARTS[name]
    own = [root / "grader" / path for path in own]
    others = [
        path
        for path in (root / "grader").rglob("*.py")
        if not any(path == mine or mine in path.parents for mine in own)
    ]
    assert [] == [p for p in others if re.search(word, p.read_text(), re.IGNORECASE)]


def without(names, root, folder):
    """Copy the program without some of its parts; return what runs it."""
    ignored = shutil.ignore_patterns("__pycache__", "course_files")
    for copied in ("grader", "kit"):
        shutil.copytree(root / copied, folder / copied, ignore=ignored)
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
@pytest.mark.parametrize("name", every(4, PARTS))
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
