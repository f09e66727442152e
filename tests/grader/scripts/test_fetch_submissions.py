"""Fetching students' repositories: only archives, under safe names, and none is lost."""

import io
import json
import os
import shutil
import sys
import tarfile
from datetime import UTC, datetime

import pytest

from grader.classroom import intake
from grader.submission import submissions
from tests.grader.processes import ran

pytestmark = pytest.mark.slow

HEADER = "id,name,repository"
# A replacement for GitHub's command that answers from files named after repositories.
GH = """#!/bin/sh
[ "$1" = api ] || exit 9
name=$(echo "$2" | sed 's,repos/,,;s,/tarball.*,,;s,/commits?per_page=1,.commits,;s,/,_,')
cat "$ANSWERS/$name" && touch "$ANSWERS/$name.sent" && exit
echo "gh: Not Found (HTTP 404)" >&2; exit 1
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

    def run(*lines, path=f"{tmp_path}:{os.environ['PATH']}", header=HEADER, options=()):
        (tmp_path / "roster.csv").write_text("\n".join([header, *lines]))
        command = [sys.executable, "scripts/fetch_submissions.py", tmp_path / "roster.csv"]
        command += [tmp_path / "out", *options]
        return ran(command, cwd=root, env={"PATH": path, "ANSWERS": str(answers)}), tmp_path / "out"

    return run


def commits(tmp_path, name, sha="a", date="2026-10-01T22:10:00Z"):
    """Let the replacement for `gh` name the newest commit of a repository."""
    (tmp_path / "answers" / f"{name}.commits").write_text(
        json.dumps([{"sha": sha * 40, "commit": {"committer": {"date": date}}}])
    )


def archives(folder):
    return sorted(path.name for path in folder.glob("[!.]*"))


def test_one_that_fails_stops_no_other_and_loses_nothing(fetch, tmp_path):
    """The student's last archive is kept, and the command names the student."""
    commits(tmp_path, "course_ada")
    done, folder = fetch("ada,Ada,course/ada", "bob,Bob,")
    assert (0, "1 of 1, 0 failed\n", "") == (done.returncode, done.stdout, done.stderr)
    ada, eve = (f"{name}@2026-10-01T22-10-00Z.tar.gz" for name in ("ada", "eve"))
    assert [ada] == archives(folder)
    assert {"assignment/linear.py": b"x = 1\n"} == submissions.read(folder / ada).sources
    done, folder = fetch("ada,Ada,course/gone", "eve,Eve,course/ada")
    assert 1 == done.returncode
    assert "'ada': course/gone cannot be fetched: 'gh: Not Found (HTTP 404)'" in done.stderr
    assert [ada, eve] == archives(folder)


def test_a_download_stops_at_the_largest_size_of_an_archive(fetch, tmp_path):
    commits(tmp_path, "course_big")
    with (tmp_path / "answers" / "course_big").open("wb") as big:
        big.truncate(60 * 2**20)
    done, folder = fetch("ada,Ada,course/big")
    assert (1, "'ada': course/big is larger than 50 MiB\n") == (done.returncode, done.stderr)
    assert ([], False) == (list(folder.iterdir()), (tmp_path / "answers/course_big.sent").exists())


def test_times_keep_attempts_and_find_a_clock_that_was_set_back(fetch, tmp_path):
    """A commit is fetched once. One that was not there at the last look is not older than that."""
    commits(tmp_path, "course_ada")
    for _ in range(2):
        done, folder = fetch("ada,Ada,course/ada")
        assert (0, "") == (done.returncode, done.stderr)
    first = "ada@2026-10-01T22-10-00Z.tar.gz"
    assert [first] == archives(folder)
    looked = datetime(2026, 10, 2, 7, 0, 0, tzinfo=UTC)
    os.utime(folder / ".ada.commit", (looked.timestamp(),) * 2)
    commits(tmp_path, "course_ada", "b", "2020-01-01T00:00:00Z")
    fetch("ada,Ada,course/ada")
    assert [first, "ada@2026-10-02T07-00-00Z.tar.gz"] == archives(folder)
    commits(tmp_path, "course_ada", "c", "2999-01-01T00:00:00Z")
    fetch("ada,Ada,course/ada")
    found = intake.recognise(folder).handed_in
    assert 3 == len(found)
    assert all(one.key == "ada" and one.submitted_at < datetime.now(UTC) for one in found)
    assert not any(one.doubt for one in found)


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", "[1]", '[{"sha": "../x"}]', '[{"sha": "' + "a" * 40 + '", "commit": null}]'],
)
def test_an_answer_without_a_commit_is_one_sentence(fetch, tmp_path, answer):
    (tmp_path / "answers" / "course_ada.commits").write_text(answer)
    done, folder = fetch("ada,Ada,course/ada")
    assert (1, "'ada': course/ada: GitHub names no commit\n") == (done.returncode, done.stderr)
    assert [] == list(folder.iterdir())


def test_a_roster_of_classroom_50_names_the_repositories(fetch, tmp_path):
    """A student who has not accepted the assignment is no failure."""
    commits(tmp_path, "org_systems-hw1-ada")
    answers = tmp_path / "answers"
    shutil.copy(answers / "course_ada", answers / "org_systems-hw1-ada")
    header = "username,first_name,last_name,email,section,github_id"
    options = ["--classroom50", "org/systems/hw1"]
    done, folder = fetch("Ada,A,L,,,1", "eve,E,E,,,2", header=header, options=options)
    assert (0, "'eve': has not accepted the assignment\n") == (done.returncode, done.stderr)
    assert ["Ada@2026-10-01T22-10-00Z.tar.gz"] == archives(folder)
    done, _ = fetch("Ada,A,L,,,1", header=header, options=["--classroom50", "org/../hw1"])
    assert 2 == done.returncode


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
    done, _ = fetch("ada,Ada,course/ada", path=str(tmp_path / "answers"))
    assert "`gh` is not installed" in done.stderr
    done, _ = fetch("ada,Ada,")
    assert "no student has a `repository`" in done.stderr
