"""The example for Classroom 50, and the script that sends scores there."""

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


def in_place_of_github(tmp_path, organization, roster, scores):
    """Make a folder in which git finds an organization's classroom50; return its environment."""
    hub = tmp_path / "hub" / organization
    hub.mkdir(parents=True)
    git("init", "-q", "--bare", "-b", "main", "classroom50.git", folder=hub)
    git("clone", "-q", str(hub / "classroom50.git"), "theirs", folder=tmp_path)
    (tmp_path / "theirs" / "systems").mkdir()
    (tmp_path / "theirs" / "systems" / "roster.csv").write_text(roster)
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
    environment = in_place_of_github(tmp_path, "cs-fall", ROSTER, scores)
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ANSWERS": str(tmp_path)}

    def run(commands):
        done = ran(["bash", "-euc", commands], cwd=work, env={**os.environ, **environment})
        assert 0 == done.returncode, done.stderr
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
    run(course)
    (work / "activations" / "policy.toml").write_text(policy)
    right = (work / "activations/solutions/reference/activations.py").read_bytes()
    push(work.parent, right, "a", "2026-10-01T22:10:00Z")
    done = run(grading)
    assert "'bob': has not accepted the assignment" in done.stderr
    assert done.stdout.endswith("the scores were sent\n")
    first = json.loads((work / "scores.json").read_text())
    (entry,) = first["assignments"]["activations"]["entries"]
    (record,) = entry["submissions"]
    assert ("Ada", True) == (entry["owner"], entry["override"])
    assert (3, 3) == (record["score"], record["max-score"])
    assert "2026-10-01T22:10:00Z" == record["datetime"]
    assert ["Ada.md"] == [path.name for path in (work / "reports").iterdir()]
    get, _, _, export, send = grading.splitlines()
    again = run("\n".join([get, export, send]))
    assert again.stdout.endswith("the scores are unchanged\n")


# --- the scores of Classroom 50 by git: one commit, none without a change, and no lost update -----


@pytest.fixture
def script(root, tmp_path):
    environment = in_place_of_github(tmp_path, "org", "username\nada\n", "{}\n")
    environment |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "hub")}
    command = [sys.executable, "scripts/classroom50_scores.py"]
    return lambda *arguments: ran([*command, *arguments], cwd=root, env=environment)


def log(tmp_path):
    remote = tmp_path / "hub" / "org" / "classroom50.git"
    return ran(["git", "-C", remote, "log", "--format=%s", "main"]).stdout.splitlines()


def test_scores_are_sent_once(script, tmp_path):
    copy, new = tmp_path / "copy", tmp_path / "new.json"
    new.write_text('{"a": 1}\n')
    assert 0 == script("get", "org/systems", copy).returncode
    assert "username\nada\n" == (copy / "systems" / "roster.csv").read_text()
    done = script("send", "org/systems", copy, new)
    assert (0, "the scores were sent\n", "") == (done.returncode, done.stdout, done.stderr)
    assert ["Scores of systems, by the grader", "x"] == log(tmp_path)
    assert 0 == script("get", "org/systems", copy).returncode
    assert new.read_bytes() == (copy / "systems" / "scores.json").read_bytes()
    assert "the scores are unchanged\n" == script("send", "org/systems", copy, new).stdout
    assert 2 == len(log(tmp_path))


def test_a_change_in_between_is_not_overwritten(script, tmp_path):
    """Such as a teacher's override in the web application."""
    copy, new = tmp_path / "copy", tmp_path / "new.json"
    new.write_text('{"a": 1}\n')
    script("get", "org/systems", copy)
    (tmp_path / "theirs" / "systems" / "scores.json").write_text('{"theirs": 1}\n')
    commit(tmp_path / "theirs")
    done = script("send", "org/systems", copy, new)
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("git failed: ")
    assert ["x", "x"] == log(tmp_path)


def test_a_wrong_name_is_one_sentence(script, tmp_path):
    for classroom, said in (
        ("org/none", "org has no classroom none"),
        ("other/systems", "git failed: "),
        ("org/../x", "expected ORG/CLASSROOM"),
    ):
        done = script("get", classroom, tmp_path / classroom.replace("/", "_"))
        assert done.returncode in (1, 2)
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_only_a_copy_of_that_repository_is_replaced(script, tmp_path):
    """Another folder, also one with another repository, stays as it is."""
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "mine", tmp_path / "theirs"):
        done = script("get", "org/systems", folder)
        assert "is not a copy of https://github.com/org/classroom50.git" in done.stderr
        assert folder.is_dir()
