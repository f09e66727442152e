"""Fetching students' repositories: only archives, under safe names, and none is lost.

At the end, a course of Classroom 50 is graded by the commands of its page.
"""

import io
import json
import os
import re
import shutil
import sys
import tarfile
import tomllib
from datetime import UTC, datetime

import pytest

from grader.classroom import intake
from grader.submission import submissions
from tests.grader.processes import ran
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

HEADER = "id,name,repository"
# A replacement for GitHub's command that answers from files named after repositories.
GH = """#!/bin/sh
[ "$1" = api ] || exit 9
name=$(echo "$2" | sed 's,repos/,,;s,/tarball.*,,;s,/commits?per_page=1,.commits,;s,/,_,')
cat "$ANSWERS/$name" && touch "$ANSWERS/$name.sent" && exit
echo "gh: Not Found (HTTP 404)" >&2; exit 1
"""


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def answers(tmp_path):
    """The folder of the answers that the replacement gives."""
    program(tmp_path / "gh", GH)
    (tmp_path / "answers").mkdir()
    return tmp_path / "answers"


def pushed(answers, repository, module, source, sha="a", date="2026-10-01T22:10:00Z"):
    """Let the replacement for `gh` answer with this as the newest commit of a repository."""
    with tarfile.open(answers / repository, mode="w:gz") as archive:
        info = tarfile.TarInfo(f"course-ada-0a1b2c/assignment/{module}")
        info.size = len(source)
        archive.addfile(info, io.BytesIO(source))
    newest = [{"sha": sha * 40, "commit": {"committer": {"date": date}}}]
    (answers / f"{repository}.commits").write_text(json.dumps(newest))


@pytest.fixture
def fetch(root, tmp_path, answers):
    """A function that runs the script on a roster of these lines; it returns process and folder."""
    pushed(answers, "course_ada", "linear.py", b"x = 1\n")

    def run(*lines, path=f"{tmp_path}:{os.environ['PATH']}", header=HEADER, options=()):
        (tmp_path / "roster.csv").write_text("\n".join([header, *lines]))
        command = [sys.executable, "scripts/fetch_submissions.py", tmp_path / "roster.csv"]
        command += [tmp_path / "out", *options]
        return ran(command, cwd=root, env={"PATH": path, "ANSWERS": str(answers)}), tmp_path / "out"

    return run


def archives(folder):
    return sorted(path.name for path in folder.glob("[!.]*"))


def test_one_that_fails_stops_no_other_and_loses_nothing(fetch):
    """The student's last archive is kept, and the command names the student."""
    done, folder = fetch("ada,Ada,course/ada", "bob,Bob,")
    assert (0, "1 of 1, 0 failed\n", "") == (done.returncode, done.stdout, done.stderr)
    ada, eve = (f"{name}@2026-10-01T22-10-00Z.tar.gz" for name in ("ada", "eve"))
    assert [ada] == archives(folder)
    assert {"assignment/linear.py": b"x = 1\n"} == submissions.read(folder / ada).sources
    done, folder = fetch("ada,Ada,course/gone", "eve,Eve,course/ada")
    assert 1 == done.returncode
    assert "'ada': course/gone cannot be fetched: 'gh: Not Found (HTTP 404)'" in done.stderr
    assert [ada, eve] == archives(folder)


def test_a_download_stops_at_the_largest_size_of_an_archive(fetch, answers):
    pushed(answers, "course_big", "linear.py", b"")
    with (answers / "course_big").open("wb") as big:
        big.truncate(60 * 2**20)
    done, folder = fetch("ada,Ada,course/big")
    assert (1, "'ada': course/big is larger than 50 MiB\n") == (done.returncode, done.stderr)
    assert ([], False) == (list(folder.iterdir()), (answers / "course_big.sent").exists())


def test_times_keep_attempts_and_find_a_clock_that_was_set_back(fetch, answers):
    """A commit is fetched once. One that was not there at the last look is not older than that."""
    for _ in range(2):
        done, folder = fetch("ada,Ada,course/ada")
        assert (0, "") == (done.returncode, done.stderr)
    first = "ada@2026-10-01T22-10-00Z.tar.gz"
    assert [first] == archives(folder)
    looked = datetime(2026, 10, 2, 7, 0, 0, tzinfo=UTC)
    os.utime(folder / ".ada.commit", (looked.timestamp(),) * 2)
    pushed(answers, "course_ada", "linear.py", b"x = 1\n", "b", "2020-01-01T00:00:00Z")
    fetch("ada,Ada,course/ada")
    assert [first, "ada@2026-10-02T07-00-00Z.tar.gz"] == archives(folder)
    pushed(answers, "course_ada", "linear.py", b"x = 1\n", "c", "2999-01-01T00:00:00Z")
    fetch("ada,Ada,course/ada")
    found = intake.recognise(folder).handed_in
    assert 3 == len(found)
    assert all(one.key == "ada" and one.submitted_at < datetime.now(UTC) for one in found)
    assert not any(one.doubt for one in found)


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", "[1]", '[{"sha": "../x"}]', '[{"sha": "' + "a" * 40 + '", "commit": null}]'],
)
def test_an_answer_without_a_commit_is_one_sentence(fetch, answers, answer):
    (answers / "course_ada.commits").write_text(answer)
    done, folder = fetch("ada,Ada,course/ada")
    assert (1, "'ada': course/ada: GitHub names no commit\n") == (done.returncode, done.stderr)
    assert [] == list(folder.iterdir())


def test_a_roster_of_classroom_50_names_the_repositories(fetch, answers):
    """A student who has not accepted the assignment is no failure."""
    for ending in ("", ".commits"):
        shutil.copy(answers / f"course_ada{ending}", answers / f"org_systems-hw1-ada{ending}")
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


def test_without_gh_it_says_so(fetch, answers):
    done, _ = fetch("ada,Ada,course/ada", path=str(answers))
    assert "`gh` is not installed" in done.stderr
    done, _ = fetch("ada,Ada,")
    assert "no student has a `repository`" in done.stderr


# --- the example for Classroom 50


ROSTER = "username,first_name,last_name,email,section,github_id\nAda,Ada,L,,,1\nbob,Bob,B,,,2\n"


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shell(commands, folder, code=0):
    """Run commands in a folder; return the completed process."""
    done = ran(["bash", "-euc", commands], cwd=folder)
    assert code == done.returncode, done.stderr
    return done


COMMIT = "git add . && git commit -qm x && git push -q origin HEAD"


@pytest.fixture
def places(root, tmp_path, answers, monkeypatch):
    """A folder in which the page's commands work, and a clone of the organization's classroom50."""
    for name, line in (("grader", f"{python()} -m grader"), ("python", sys.executable)):
        program(tmp_path / name, f'#!/bin/sh\nexport PYTHONPATH="{root}"\nexec {line} "$@"\n')
    work, theirs = tmp_path / "work", tmp_path / "theirs"
    work.mkdir()
    theirs.mkdir()
    (work / "scripts").symlink_to(root / "scripts")
    who = {f"{one}_{what}": "t" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    here = {"CONFIG_KEY_0": f"url.{tmp_path}/.insteadOf", "CONFIG_VALUE_0": "https://github.com/"}
    for name, value in {**who, **here, "CONFIG_COUNT": "1"}.items():
        monkeypatch.setenv(f"GIT_{name}", value)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("ANSWERS", str(answers))
    bare = tmp_path / "cs-fall" / "classroom50.git"
    shell(f"git init -q --bare -b main {bare} && git clone -q {bare} . && mkdir systems", theirs)
    (theirs / "systems" / "roster.csv").write_text(ROSTER)
    scores = '{"schema": "classroom50/scores/v1", "assignments": {}}\n'
    (theirs / "systems" / "scores.json").write_text(scores)
    shell(COMMIT, theirs)
    return work, theirs


@pytest.mark.proof
def test_a_student_of_classroom_50_is_graded_by_the_page(root, places, answers):
    page = (root / "examples/classroom50/README.md").read_text()
    course, grading = blocks(page, "sh")
    (policy,) = blocks(page, "toml")
    assert tomllib.loads(policy)
    work, theirs = places
    scores = theirs / "systems" / "scores.json"
    shell(course, work)
    (work / "activations" / "policy.toml").write_text(policy)
    right = (work / "activations/solutions/reference/activations.py").read_bytes()
    pushed(answers, "cs-fall_systems-activations-ada", "activations.py", right)
    done = shell(grading, work)
    assert "'bob': has not accepted the assignment" in done.stderr
    shell("git pull -q", theirs)
    first = json.loads(scores.read_text())
    (entry,) = first["assignments"]["activations"]["entries"]
    (record,) = entry["submissions"]
    assert ("Ada", True) == (entry["owner"], entry["override"])
    assert (3, 3) == (record["score"], record["max-score"])
    assert "2026-10-01T22:10:00Z" == record["datetime"]
    assert ["Ada.md"] == [path.name for path in (work / "reports").iterdir()]
    clone, _, _, export, send = grading.splitlines()
    shell("\n".join([clone, export, send]), work)
    assert "0\n" == shell("git fetch -q && git rev-list --count ..@{u}", theirs).stdout
    # A change in between, such as a teacher's override, is not overwritten.
    shell(clone, work)
    scores.write_text(scores.read_text().replace('"score": 3', '"score": 2'))
    shell(COMMIT, theirs)
    (work / "scores.json").write_text("{}\n")
    assert "rejected" in shell(send, work, code=1).stderr
