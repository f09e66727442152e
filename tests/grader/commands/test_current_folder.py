"""A command imports nothing from the current folder, which may hold a submission.

Nor does it import a conftest.py from a folder above the course, such as /tmp.
"""

import os
import subprocess
import sys

import pytest

from tests.grader import small_courses
from tests.grader.classroom.a_class import SOLVED, hand_in
from tests.grader.classroom.raylets import RAY
from tests.grader.small_courses import LISTS

pytestmark = pytest.mark.slow

# What pip writes for the command. `python -m grader` cannot hold out: Python itself looks for
# importlib in the current folder.
SCRIPT = "from grader.commands.cli import main\nif __name__ == '__main__':\n    main()\n"
OTHERS = ("grader", "kit", "torch", "numpy", "msgspec", "typer", "rich", "pytest", "ray")


@pytest.fixture
def run(root, tmp_path):
    """A function that runs the command in a folder with a module for each of the usual names."""
    script, folder, imported = (tmp_path / name for name in ("grader", "hostile", "imported"))
    script.write_text(SCRIPT)
    folder.mkdir()
    says = f"open({str(imported)!r}, 'a').write(__name__ + ' ')\nraise ImportError\n"
    for name in (*sys.stdlib_module_names, *OTHERS):
        (folder / f"{name}.py").write_text(says)
    (tmp_path / "conftest.py").write_text(says)

    def started(*arguments):
        done = subprocess.run(
            [sys.executable, script, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        found = imported.read_text() if imported.exists() else ""
        assert (done.returncode, found) == (0, ""), done.stderr
        return done.stdout

    return started


def test_a_class_is_graded_and_a_platform_gets_a_result(run, tmp_path):
    """The helper processes are of multiprocessing, of our reader and of the harness."""
    handed_in, book, home = (tmp_path / name for name in ("class", "class.sqlite", "autograder"))
    handed_in.mkdir()
    hand_in(handed_in, "ada", LISTS)
    hand_in(handed_in, "bob", LISTS + "# too\n")
    course = ("--course", small_courses.with_lists(tmp_path / "course"))
    run("batch", handed_in, "--gradebook", book, "--jobs", "1", *course)
    run("mistakes", book, *course)
    (home / "results").mkdir(parents=True)
    module = home / "submission" / "assignment" / "activations.py"
    module.parent.mkdir(parents=True)
    module.write_text(LISTS)
    run("autograde", home, *course)
    assert '"score": 3.0' in (home / "results" / "results.json").read_text()


@pytest.mark.proof
@pytest.mark.skipif(not RAY.exists(), reason="Ray is not installed")
@pytest.mark.xdist_group("ray")
def test_a_cluster_grades(run, root, tmp_path):
    """Ray tells its processes the folder of the program that connects to it."""
    (tmp_path / "class").mkdir()
    hand_in(tmp_path / "class", "ada", SOLVED)
    course = ("--course", root / "examples" / "tiny_course", "--executor", "ray", "--jobs", "1")
    run("batch", tmp_path / "class", "--gradebook", tmp_path / "class.sqlite", *course)
