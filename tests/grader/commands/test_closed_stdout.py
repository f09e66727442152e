"""A command writes its files first and completely, even if stdout is closed or full."""

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from grader.base import files
from grader.base.errors import MachineFault, UsageError
from tests.grader.in_this_process import run_on
from tests.grader.ordinary_user import NEEDS_ROOT
from tests.grader.processes import ran
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow


@pytest.fixture
def merge(root, tmp_path):
    """Merge two results in a shell with these redirections; return the completed process."""
    cpu, cuda = run_on("cpu", tmp_path / "cpu.json"), run_on("cuda", tmp_path / "cuda.json")

    def run(redirections, *options, **environment):
        command = " ".join(map(str, [python(), "-m", "grader", "merge", cpu, cuda, *options]))
        shell = ["bash", "-c", f"{command} {redirections}"]
        return ran(shell, cwd=root, env=os.environ | environment)

    return run


NO_SPACE = "the report cannot be printed: No space left on device\n"
CLOSED = "grader: the report cannot be printed: stdout is closed\n"


@pytest.mark.parametrize(
    ("redirections", "written", "code", "said"),
    [
        pytest.param("| true; exit ${PIPESTATUS[0]}", True, 0, "", marks=pytest.mark.proof),
        ("| head -1; exit ${PIPESTATUS[0]}", True, 0, ""),
        ("> /dev/full", True, 0, f"grader: {NO_SPACE}"),
        (">&-", True, 0, CLOSED),
        (">&- <&- 2>&-", True, 0, ""),
        pytest.param("> /dev/null", True, 0, "", marks=pytest.mark.proof),
        ("| true; exit ${PIPESTATUS[0]}", False, 0, ""),
        ("> /dev/full", False, 3, f"grader: this machine cannot do this now: {NO_SPACE}"),
        (">&-", False, 2, CLOSED),
    ],
    ids=range(9),
)
def test_the_file_and_the_code_do_not_depend_on_who_reads_the_report(
    merge, tmp_path, redirections, written, code, said
):
    """Without a file, a report that is lost is an error, unless its reader has read enough."""
    done = merge(redirections, *(("--json", tmp_path / "r.json") if written else ()))
    assert (done.returncode, done.stderr) == (code, said)
    assert not written or json.loads((tmp_path / "r.json").read_text())["score"] == 10


def test_a_stdout_of_another_encoding_is_no_reason_to_fail(merge):
    done = merge("", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\\u2500" in done.stdout


def test_a_file_that_stdout_goes_to_is_refused(merge, tmp_path):
    """The JSON and the report would overwrite each other."""
    for name, redirections in (
        ("/dev/stdout", "| cat; exit ${PIPESTATUS[0]}"),
        (tmp_path / "r", f"> {tmp_path / 'r'}"),
    ):
        done = merge(redirections, "--json", name)
        sentence = (
            f"grader: {name} cannot be written: stdout goes to this file, and so does the "
            "printed report; name another file\n"
        )
        assert (done.returncode, done.stderr) == (2, sentence)


def test_a_pipe_of_the_shells_is_written_to(merge):
    """A pipe cannot be replaced by a temporary file."""
    done = merge("> /dev/null", "--json", ">(sleep 0.1; cat >&2)")
    assert done.returncode == 0
    assert json.loads(done.stderr)["score"] == 10


@NEEDS_ROOT
def test_no_link_of_another_user_is_followed_in_a_folder_for_everybody(tmp_path):
    """It would lead to a file that only this user may write. Links of one's own are followed."""
    target, link, own = (tmp_path / name for name in ("kept", "for_all/r.json", "for_all/own.json"))
    target.write_bytes(b"old")
    link.parent.mkdir()
    link.parent.chmod(0o1777)
    for one in (link, own):
        one.symlink_to(target)
    os.lchown(link, 65534, 65534)
    for act in (files.check_writable, lambda path: files.write(path, b"new")):
        with pytest.raises(UsageError, match="it is a link of another user"):
            act(link)
    assert target.read_bytes() == b"old"
    files.write(own, b"new")
    link.parent.chmod(0o755)
    files.write(link, b"newer")
    assert target.read_bytes() == b"newer"


def test_a_file_is_replaced_whole(tmp_path):
    target, link = tmp_path / "r.json", tmp_path / "latest.json"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    opened = target.open("rb")
    files.write(link, b"new")
    assert (opened.read(), target.read_bytes(), link.is_symlink()) == (b"old", b"new", True)
    opened.close()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest.json", "r.json"]


def test_a_new_file_has_the_permissions_that_new_files_have(tmp_path):
    """A temporary file's permissions would keep other users from reading it."""
    before = os.umask(0o027)
    try:
        files.write(tmp_path / ("n" * 250), b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / ("n" * 250)).stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):

    def full(descriptor):
        raise OSError(28, "No space left on device")

    (tmp_path / "r.json").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineFault, match=r"r\.json cannot be written: No space left on device"):
        files.write(tmp_path / "r.json", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("r.json", b"old")]


def test_a_read_only_folder_is_said_before_the_work(tmp_path, monkeypatch):
    """Root may write everywhere, so the test replaces `os.access`."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(MachineFault, match="is read-only"):
        files.check_writable(tmp_path / "r.json")


@pytest.mark.parametrize("fails", [False, True])
def test_files_that_belong_together_are_all_written_or_none(tmp_path, fails):
    """Until then, no other program sees a new file or folder."""
    (tmp_path / "old").write_bytes(b"old")
    names = [tmp_path / "old", tmp_path / "new", tmp_path / "pages" / "deep" / "a.html"]
    with suppress(UsageError), files.together():
        files.make_folder(names[2].parent)
        for path in names:
            files.write(path, b"new")
        assert [path.exists() for path in names] == [True, False, False]
        assert names[0].read_bytes() == b"old"
        if fails:
            raise UsageError("the last one cannot be made")
    found = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == ({"old": b"old"} if fails else dict.fromkeys(("old", "new", "a.html"), b"new"))
    assert (tmp_path / "pages").exists() is not fails
    assert not list(tmp_path.rglob(".*"))


def test_if_one_file_cannot_be_moved_the_others_are_as_before(tmp_path):
    """Here, another program makes a folder of its name in the meantime."""
    (tmp_path / "old").write_bytes(b"old")

    def write():
        with files.together():
            for name in ("old", "new", "third"):
                files.write(tmp_path / name, b"x")
            (tmp_path / "third").mkdir()

    with pytest.raises(UsageError, match="third cannot be written: Is a directory"):
        write()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "third"]
    assert (tmp_path / "old").read_bytes() == b"old"
