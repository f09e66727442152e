"""Fetching students' repositories: only archives, under safe names, and none is lost."""

import io
import os
import subprocess
import sys
import tarfile

import pytest

from grader.submission import submissions

pytestmark = pytest.mark.slow

# A replacement for GitHub's command that answers from files named after repositories.
GH = """#!/bin/sh
[ "$1" = api ] || exit 9
name=$(echo "$2" | sed 's,repos/,,;s,/tarball,,;s,/,_,')
cat "$ANSWERS/$name" || { echo "gh: Not Found (HTTP 404)" >&2; exit 1; }
"""


@pytest.fixture
def fetch(root, tmp_path):
    """A function that runs the script on a roster of these lines; it returns process and folder."""
    answers = tmp_path / "answers"
    answers.mkdir()
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("course-ada-0a1b2c/assignment/linear.py")
        info.size = 6
        archive.addfile(info, io.BytesIO(b"x = 1\n"))
    (answers / "course_ada").write_bytes(buffer.getvalue())

    def run(*lines, path=f"{tmp_path}:{os.environ['PATH']}"):
        (tmp_path / "roster.csv").write_text("\n".join(["id,name,repository", *lines]))
        command = [sys.executable, "scripts/fetch_submissions.py", tmp_path / "roster.csv"]
        done = subprocess.run(
            [*command, tmp_path / "out"],
            cwd=root,
            env={"PATH": path, "ANSWERS": str(answers)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done, tmp_path / "out"

    return run


def test_what_was_fetched_can_be_graded(fetch):
    """Students without a repository are skipped."""
    done, folder = fetch("ada,Ada,course/ada", "bob,Bob,")
    assert (0, "1 of 1, 0 failed\n", "") == (done.returncode, done.stdout, done.stderr)
    assert ["ada.tar.gz"] == [path.name for path in folder.iterdir()]
    assert {"assignment/linear.py": b"x = 1\n"} == submissions.read(folder / "ada.tar.gz").sources


def test_one_that_fails_stops_no_other_and_loses_nothing(fetch):
    """The student's last archive is kept, and the command names the student."""
    fetch("ada,Ada,course/ada")
    done, folder = fetch("ada,Ada,course/gone", "eve,Eve,course/ada")
    assert 1 == done.returncode
    assert "'ada': course/gone cannot be fetched: 'gh: Not Found (HTTP 404)'" in done.stderr
    assert {"ada.tar.gz", "eve.tar.gz"} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("../ada,Ada,course/ada", "this id cannot be used as a file name"),
        (".hidden,Ada,course/ada", "this id cannot be used as a file name"),
        ("ada,Ada,--hostname=evil/ada", "is not a repository"),
        ("ada,Ada,course/../other", "is not a repository"),
        ("ada,Ada,course/ada/contents", "is not a repository"),
        (",Ada,course/ada", "this id cannot be used as a file name"),
    ],
)
def test_names_from_a_roster_are_not_trusted(fetch, line, said):
    """A name is used neither as a path nor as an option unless it is valid."""
    done, folder = fetch(line)
    assert 1 == done.returncode
    assert said in done.stderr
    assert [] == list(folder.iterdir())


def test_without_gh_it_says_so(fetch, tmp_path):
    """A roster without any repository is also reported."""
    done, _ = fetch("ada,Ada,course/ada", path=str(tmp_path / "answers"))
    assert "`gh` is not installed" in done.stderr
    done, _ = fetch("ada,Ada,")
    assert "no student has a `repository`" in done.stderr
