"""The scores of Classroom 50 by git: one commit, none without a change, and no lost update."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def hub(tmp_path):
    """A repository in place of GitHub's: git finds the addresses of GitHub in this folder."""
    remote = tmp_path / "hub" / "org" / "classroom50.git"
    for words in (["init", "-q", "--bare", "-b", "main", remote], ["clone", "-q", remote, "work"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "work" / "systems"
    folder.mkdir()
    (folder / "roster.csv").write_text("username\nada\n")
    (folder / "scores.json").write_text("{}\n")
    commit(tmp_path / "work")
    return tmp_path / "hub"


def commit(work):
    who = ["-c", "user.name=t", "-c", "user.email=t@x.edu"]
    for words in (["add", "."], [*who, "commit", "-qm", "x"], ["push", "-q", "origin", "HEAD"]):
        subprocess.run(["git", *words], cwd=work, check=True, capture_output=True)


@pytest.fixture
def script(root, hub):
    def run(*arguments):
        rewritten = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{hub}/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/",
        }
        return subprocess.run(
            [sys.executable, "scripts/classroom50_scores.py", *map(str, arguments)],
            cwd=root,
            env={"PATH": os.environ["PATH"], "HOME": str(hub), **rewritten},
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


def log(hub):
    remote = hub / "org" / "classroom50.git"
    words = ["git", "-C", remote, "log", "--format=%s", "main"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_scores_are_sent_once(script, hub, tmp_path):
    """The second call changes nothing."""
    copy, new = tmp_path / "copy", tmp_path / "new.json"
    new.write_text('{"a": 1}\n')
    assert 0 == script("get", "org/systems", copy).returncode
    assert "username\nada\n" == (copy / "systems" / "roster.csv").read_text()
    done = script("send", "org/systems", copy, new)
    assert (0, "the scores were sent\n", "") == (done.returncode, done.stdout, done.stderr)
    assert ["Scores of systems, by the grader", "x"] == log(hub)
    assert 0 == script("get", "org/systems", copy).returncode
    assert new.read_bytes() == (copy / "systems" / "scores.json").read_bytes()
    assert "the scores are unchanged\n" == script("send", "org/systems", copy, new).stdout
    assert 2 == len(log(hub))


def test_a_change_in_between_is_not_overwritten(script, hub, tmp_path):
    """Such as a teacher's override in the web application."""
    copy, new = tmp_path / "copy", tmp_path / "new.json"
    new.write_text('{"a": 1}\n')
    script("get", "org/systems", copy)
    (tmp_path / "work" / "systems" / "scores.json").write_text('{"theirs": 1}\n')
    commit(tmp_path / "work")
    done = script("send", "org/systems", copy, new)
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("git failed: ")
    assert ["x", "x"] == log(hub)


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
    for folder in (tmp_path / "mine", tmp_path / "work"):
        done = script("get", "org/systems", folder)
        assert "is not a copy of https://github.com/org/classroom50.git" in done.stderr
        assert folder.is_dir()
