"""The example for Classroom 50: the commands of its page, with GitHub's side in files."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib

import pytest

from tests.grader.processes import ran
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

# Stands in for GitHub's command: answers from files named after the student's repository.
GH = """#!/bin/sh
name=$(echo "$2" | sed 's,repos/,,;s,/tarball.*,.tar.gz,;s,/commits?per_page=1,.commits,;s,/,_,')
cat "$ANSWERS/$name" 2>/dev/null || { echo "gh: Not Found (HTTP 404)" >&2; exit 1; }
"""
ROSTER = "username,first_name,last_name,email,section,github_id\nAda,Ada,L,,,1\nbob,Bob,B,,,2\n"


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def git(*words, folder):
    who = ["-c", "user.name=t", "-c", "user.email=t@x.edu"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit(work):
    for words in (["add", "."], ["commit", "-qm", "x"], ["push", "-q", "origin", "HEAD"]):
        git(*words, folder=work)


def in_place_of_github(tmp_path, scores):
    """Make a folder in which git finds the organization's classroom50; return its environment."""
    hub = tmp_path / "hub" / "cs-fall"
    hub.mkdir(parents=True)
    git("init", "-q", "--bare", "-b", "main", "classroom50.git", folder=hub)
    git("clone", "-q", str(hub / "classroom50.git"), "theirs", folder=tmp_path)
    (tmp_path / "theirs" / "systems").mkdir()
    (tmp_path / "theirs" / "systems" / "roster.csv").write_text(ROSTER)
    (tmp_path / "theirs" / "systems" / "scores.json").write_text(scores)
    commit(tmp_path / "theirs")
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{tmp_path / 'hub'}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }


@pytest.fixture
def world(root, tmp_path):
    """A folder in which the page's commands work, with GitHub's side in files."""
    for program, line in (
        ("grader", f'exec {python()} -m grader "$@"'),
        ("python", f'exec {sys.executable} "$@"'),
    ):
        (tmp_path / program).write_text(f'#!/bin/sh\nexport PYTHONPATH="{root}"\n{line}\n')
    (tmp_path / "gh").write_text(GH)
    for program in ("grader", "python", "gh"):
        (tmp_path / program).chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "scripts").symlink_to(root / "scripts")
    scores = '{"schema": "classroom50/scores/v1", "assignments": {}}\n'
    environment = in_place_of_github(tmp_path, scores)
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ANSWERS": str(tmp_path)}
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "t", f"GIT_{who}_EMAIL": "t@x.edu"}

    def run(commands, code=0):
        done = ran(["bash", "-euc", commands], cwd=work, env={**os.environ, **environment})
        assert code == done.returncode, done.stderr
        return done

    return work, run


def push(folder, source, sha, date):
    """Ada pushes this solution."""
    name = folder / "cs-fall_systems-activations-ada"
    with tarfile.open(f"{name}.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("cs-fall-systems-activations-ada-0a1b2c/assignment/activations.py")
        info.size = len(source)
        archive.addfile(info, io.BytesIO(source))
    newest = [{"sha": sha * 40, "commit": {"committer": {"date": date}}}]
    (folder / f"{name.name}.commits").write_text(json.dumps(newest))


def test_a_student_is_graded_by_the_page(root, world):
    page = (root / "examples/classroom50/README.md").read_text()
    course, grading = blocks(page, "sh")
    (policy,) = blocks(page, "toml")
    assert tomllib.loads(policy)
    work, run = world
    theirs = work.parent / "theirs"
    scores = theirs / "systems" / "scores.json"
    run(course)
    (work / "activations" / "policy.toml").write_text(policy)
    right = (work / "activations/solutions/reference/activations.py").read_bytes()
    push(work.parent, right, "a", "2026-10-01T22:10:00Z")
    done = run(grading)
    assert "'bob': has not accepted the assignment" in done.stderr
    git("pull", "-q", folder=theirs)
    first = json.loads(scores.read_text())
    (entry,) = first["assignments"]["activations"]["entries"]
    (record,) = entry["submissions"]
    assert ("Ada", True) == (entry["owner"], entry["override"])
    assert (3, 3) == (record["score"], record["max-score"])
    assert "2026-10-01T22:10:00Z" == record["datetime"]
    assert ["Ada.md"] == [path.name for path in (work / "reports").iterdir()]
    clone, _, _, export, send = grading.splitlines()
    run("\n".join([clone, export, send]))
    git("fetch", "-q", folder=theirs)
    assert "0" == ran(["git", "rev-list", "--count", "..@{u}"], cwd=theirs).stdout.strip()
    # A change in between, such as a teacher's override, is not overwritten.
    run(clone)
    scores.write_text(scores.read_text().replace('"score": 3', '"score": 2'))
    commit(theirs)
    (work / "scores.json").write_text("{}\n")
    assert "rejected" in run(send, code=1).stderr
