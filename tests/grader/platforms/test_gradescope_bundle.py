"""The zip for Gradescope, run as there: whatever happens, results.json states whose fault it is.

The tests use their own Python in place of the container's, so setup.sh is only parsed, not run.
"""

import compileall
import json
import os
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from grader.course import courses
from grader.publish import gradescope_bundle
from tests.grader import small_courses
from tests.grader.report.test_gradescope_report import valid
from tests.grader.sampling import every
from tests.grader.warm_python import command

pytestmark = pytest.mark.slow

OURS = "The fault is ours"


@pytest.fixture(scope="module")
def unpacked(grader, tmp_path_factory):
    """A small course's zip, written by the command and unpacked with its file permissions."""
    folder = tmp_path_factory.mktemp("gradescope")
    course = small_courses.with_lists(folder / "course")
    (course / "policy.toml").write_text(
        '[policy]\nper_cent_a_day = 50\n[policy.gradescope]\ntests = "after_published"\n'
    )
    done = grader("release", "gradescope", folder / "out.zip", "--course", course)
    assert 0 == done.returncode, done.stderr
    assert "never give it to a student" in done.stdout
    with zipfile.ZipFile(folder / "out.zip") as archive:
        for info in archive.infolist():
            path = Path(archive.extract(info, folder / "source"))
            path.chmod(info.external_attr >> 16)
    assert compileall.compile_dir(folder / "source", quiet=1)  # once, for all copies
    return folder / "source"


@pytest.fixture
def home(unpacked, tmp_path):
    """Gradescope's folder after set-up, with a right submission. Its files may only be replaced."""
    source = shutil.copytree(unpacked, tmp_path / "home" / "source", copy_function=os.link)
    (source / ".venv" / "bin").mkdir(parents=True)
    (source / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\n{command()} "$@"\n')
    (source / ".venv" / "bin" / "python").chmod(0o755)
    (source / ".ready").touch()
    right = unpacked / "course" / "solutions" / "reference"
    shutil.copytree(right, source.parent / "submission" / "assignment")
    return source.parent


def run(home, **environment):
    (home / "tmp").mkdir(exist_ok=True)
    shutil.copy(home / "source" / "run_autograder", home)
    done = subprocess.run(
        [home / "run_autograder"],
        env={
            "PATH": os.environ["PATH"],
            "AUTOGRADER_HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    written = home / "results" / "results.json"
    return done, json.loads(written.read_text()) if written.is_file() else None


def test_the_zip_has_what_gradescope_needs(unpacked):
    """Both scripts are executable and valid bash without Windows line ends."""
    for name in gradescope_bundle.SCRIPTS:
        path = unpacked / name
        assert path.stat().st_mode & stat.S_IXUSR
        assert b"\r" not in path.read_bytes()
        checked = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        assert (0, "") == (checked.returncode, checked.stderr)


def test_the_suite_in_the_zip_is_the_suite_here(unpacked):
    """So results can be compared. Solutions of other courses are left out."""
    there, here = (courses.load(f) for f in (unpacked / "course", unpacked.parent / "course"))
    assert there.suite_sha256() == here.suite_sha256()
    assert unpacked / "course" / "solutions" == there.solutions
    assert not (unpacked / "grader" / "solutions" / "reference").exists()
    ours = gradescope_bundle.bundle(courses.load())
    assert "course/solutions/reference/linear.py" in ours
    assert "grader/solutions/known_mistakes.py" in ours
    assert not [name for name in ours if "__pycache__" in name or "/right.py" in name]
    required = ours["requirements.txt"].decode()
    names = {line.partition("==")[0] for line in required.splitlines()}
    assert ({"torch", "pytest", "typer"} <= names, "+" in required) == (True, False)


def without_bubblewrap(folder):
    """A PATH with the programs that are needed, but no bubblewrap."""
    folder.mkdir()
    for program in ("bash", "env", "mkdir"):
        (folder / program).symlink_to(shutil.which(program))
    return str(folder)


# A container grades as root, and may have only landlock, which needs that.
@pytest.mark.parametrize("level", every(2, ["landlock", "bubblewrap"][os.geteuid() and 1 :]))
def test_a_right_submission_earns_everything_and_a_second_run_starts_anew(
    unpacked, home, tmp_path, level
):
    """Late penalty and visibility follow the policy; nothing of the first submission is left.

    The worker needs neither the grader nor the course, which set-up closes to other users.
    """
    source = home / "source"
    for name in ("grader", "kit", "course"):  # the links of other tests keep their mode
        shutil.rmtree(source / name)
        shutil.copytree(unpacked / name, source / name)
    lines = (source / "setup.sh").read_text().splitlines()
    closed = [line for line in lines if line.startswith("chmod ")]
    assert any("go-rwx" in line for line in closed)
    command = ["bash", "-euc", "\n".join([f"source={source}", *closed])]
    subprocess.run(command, check=True)
    assert not (source / "grader" / "worker").stat().st_mode & 0o077
    (home / "submission_metadata.json").write_text(
        '{"created_at": "2026-10-04T09:00:00Z", "assignment": {"due_date": "2026-10-04T08:00:00Z"}}'
    )
    path = os.environ["PATH"] if level == "bubblewrap" else without_bubblewrap(tmp_path / "bin")
    done, tree = run(home, PATH=path)
    assert (0, 1.5) == (done.returncode, valid(tree)["score"]), done.stderr
    assert f"isolation {level}" in done.stdout
    assert "1 day after" in tree["output"]
    assert {"after_published"} == {entry["visibility"] for entry in tree["tests"]}
    assert 3 == sum(entry["max_score"] for entry in tree["tests"])
    assert 3 == sum(entry["score"] for entry in tree["tests"])
    assert "this container has" in done.stderr
    source = home / "submission" / "assignment" / "activations.py"
    source.write_text("raise SystemExit\n")
    _, tree = run(home)
    assert 0 == valid(tree)["score"]
    assert [] == list((home / "tmp").iterdir())


def test_what_cannot_be_graded_earns_nothing_and_says_why(home):
    shutil.rmtree(home / "submission" / "assignment")
    (home / "submission" / "essay.txt").write_text("x = 1\n")
    _, tree = run(home)
    assert 0 == valid(tree)["score"]
    assert tree["output"].startswith("This submission cannot be graded: ")
    assert "assignment" in tree["output"]


HIDDEN, PROGRAM = "course/tests/hidden/relu/test_hidden.py", "grader/grading/grade.py"


@pytest.mark.parametrize(
    ("path", "text", "said"),
    every(
        2,
        [
            (HIDDEN, "def test_x(student): 1 / 0\n", OURS),
            (".venv/bin/python", None, "it did not finish"),
            (".ready", None, "setup.sh did not finish"),
            ("course/assignment/problems.toml", "[limits]\n", "it did not finish"),
            (PROGRAM, "import os\nos.kill(os.getpid(), 9)\n", "It was killed, perhaps because its"),
            (
                PROGRAM,
                "import time\ntime.sleep(600)\n",
                "did not finish within Gradescope's 10 min",
            ),
        ],
    ),
    ids=range(6),
)
def test_a_fault_of_ours_is_never_a_zero(home, path, text, said):
    """The result has no score and no tests, so Gradescope records nothing."""
    damaged, harness = home / "source" / path, home / "source/grader/platforms/harness.py"
    damaged.unlink()
    damaged.write_text(text) if text else None
    if text and "sleep" in text:  # of the 10 minutes, this leaves five seconds for grading
        before = harness.read_text()
        assert "LAST_SECONDS = 15.0" in before
        harness.unlink()
        harness.write_text(before.replace("LAST_SECONDS = 15.0", "LAST_SECONDS = 595.0"))
    _, tree = run(home)
    assert said in tree["output"]
    assert OURS in tree["output"]
    assert {"score", "tests"}.isdisjoint(tree)


def test_a_result_that_cannot_be_written_is_no_result(home):
    """Gradescope then finds no result, and the output says so."""
    (home / "results").write_text("a file where the folder should be")
    done, tree = run(home)
    assert done.returncode != 0
    assert tree is None
    assert "no points until somebody fixes this" in done.stderr
