"""The commands grade a class in real sandboxes, through hostile submissions, kills and regrades."""

import contextlib
import hashlib
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from grader.classroom import batches, setups
from grader.classroom.executor import Ended, LocalExecutor
from grader.course import courses
from grader.submission.submissions import Submission
from tests.grader import processes, small_courses
from tests.grader.classroom.a_class import WITH_LISTS, Desk, hand_in, hand_in_class, keep
from tests.grader.conftest import changed
from tests.grader.processes import descendants, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("batch")]

CLASS = WITH_LISTS
SOLVED, NO_SHIFT = (CLASS[name][0] for name in ("ada", "bob"))
POINTS_OF_FOUR = {name: CLASS[name][1] for name in ("ada", "bob", "cyd", "dan")}


def test_a_refused_file_is_read_only_if_it_is_as_small_as_an_archive(tmp_path):
    """A larger file is known by its name and size, and a pipe or a folder by its name."""
    small, large, pipe = (tmp_path / name for name in ("small", "large", "pipe"))
    small.write_bytes(b"no zip")
    assert hashlib.sha256(b"no zip").hexdigest() == batches._hash_of(small)
    with large.open("wb") as file:
        file.truncate(2**40)  # to read it would take hours
    assert f"name large of {2**40} bytes" == batches._hash_of(large)
    os.mkfifo(pipe)  # to open it would take forever
    assert ["name pipe", "name no"] == [batches._hash_of(p) for p in (pipe, tmp_path / "no")]
    assert f"name {tmp_path.name}" == batches._hash_of(tmp_path)


@pytest.fixture
def course(tmp_path):
    """The tiny course without torch, with low limits, whose tests and policy a test may change."""
    course = small_courses.with_lists(tmp_path / "course")
    limits = "134_217_728\nprocesses = 8"
    changed(course / "assignment" / "problems.toml", "536_870_912", limits)
    return course


@pytest.fixture
def handed_in(tmp_path):
    return hand_in_class(tmp_path / "handed_in", CLASS)


def batch_of(handed_in, book, course, *options):
    words = ["batch", handed_in, "--gradebook", book, "--course", course, *options]
    return [sys.executable, "-m", "grader", *map(str, words)]


@pytest.fixture
def desk(typed, course, handed_in, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, typed)


BATCH = "batch handed_in --gradebook g.sqlite"


def test_a_class_is_graded_and_what_was_graded_is_not_graded_again(desk, handed_in):
    """Hostile submissions change no other result; the second call grades only new ones."""
    rows = "".join(f"{name};{name.title()} Doe;A\n" for name in [*CLASS, "zoe"])
    desk.write("roster.csv", f"\ufeffid;name;section\n{rows}")
    said = desk(f"{BATCH} --roster roster.csv")
    assert "10 submissions of 11 students, 10 of them new; 9 to grade" in said
    assert "11 students: 9 graded, 1 missing, 1 refused" in said
    assert desk.points() == {name: value for name, (_, value) in CLASS.items()} | {"zoe": None}
    hand_in(handed_in, "zoe", SOLVED)
    hand_in(handed_in, "new", NO_SHIFT.replace("return", "return 1 *"))
    said = desk(f"{BATCH} --roster roster.csv")
    # Zoe's sources are the same as Ada's, which already have a result.
    assert "12 submissions of 12 students, 2 of them new; 1 to grade" in said
    assert "12 students: 11 graded, 1 refused" in said
    assert "the roster does not have this student" in said
    assert desk.points()["zoe"] == 3.0


def assert_intact(book):
    database = sqlite3.connect(f"{book.as_uri()}?mode=ro", uri=True)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


@pytest.fixture
def started(request, course, handed_in, tmp_path, root):
    """A running batch of four, two of them slow, that has stored its first result."""
    keep(handed_in, *POINTS_OF_FOUR)
    for name in ("cyd", "dan"):
        hand_in(handed_in, name, f"import time\ntime.sleep(2)\n{CLASS[name][0]}")
    book = tmp_path / "g.sqlite"
    command = batch_of(handed_in, book, course, "--jobs", getattr(request, "param", 1))
    process = processes.started(command, cwd=root, start_new_session=True)
    with process:
        until(lambda: graded(book))
        yield process, book
        process.kill()


def test_ctrl_c_ends_at_once_and_what_was_graded_is_kept(started):
    """The command exits with 130 and one line, which says how to continue."""
    process, book = started
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=600)
    assert (process.returncode, out) == (130, "")
    assert said.splitlines()[-1] == (
        f"grader: interrupted; the results so far are in {book}; "
        "run the same command again to continue"
    )
    assert graded(book)


def graded(book):
    try:
        with contextlib.closing(sqlite3.connect(f"{book.as_uri()}?mode=ro", uri=True)) as database:
            (count,) = database.execute("SELECT COUNT(*) FROM grade").fetchone()
    except sqlite3.Error:
        return 0
    return count


def test_after_kill_9_the_same_command_goes_on(started, desk):
    process, book = started
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert_intact(book)
    first = graded(book)
    assert f"{4 - first} to grade" in desk(f"{BATCH} --jobs 1")
    assert desk.points() == POINTS_OF_FOUR


@pytest.mark.proof
@pytest.mark.parametrize("started", [2], indirect=True)
def test_a_process_that_is_killed_costs_a_second_try(started, desk):
    """The test acts as the kernel's out-of-memory killer; the class is still completed."""
    process, _ = started
    children = processes.processes("PPid", process.pid)
    workers = [one for one in children if b"spawn_main" in command_of(one)]
    os.kill(workers[-1], signal.SIGKILL)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert desk.points() == POINTS_OF_FOUR


def test_a_process_that_dies_between_two_submissions_costs_no_try(course):
    here = courses.load(course)
    setup = setups.of_today(here, here.problems, device="cpu", isolation="bubblewrap", seed=0)
    left = [Submission(name, {"assignment/activations.py": CLASS[name][0].encode()}, [])
            for name in ("ada", "bob")]  # fmt: skip

    def take():
        if len(left) == 1:
            for process in multiprocessing.active_children():
                process.kill()
            until(lambda: "_ExecutorManagerThread" not in str(threading.enumerate()))
        return left.pop(0) if left else None

    events = list(LocalExecutor(here, setup, jobs=1).run(take))
    ended = [event for event in events if isinstance(event, Ended)]
    assert [(bool(one.result), one.fault) for one in ended] == [(True, "")] * 2


SOMETIMES = """#!/bin/sh
for word do
    case "$word" in --seccomp)
        mktemp {folder}/started-XXXXXX >/dev/null
        [ $(ls {folder} | wc -l) = 2 ] && exit 1
    esac
done
exec {real} "$@"
"""


@pytest.mark.proof
@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_a_box_that_is_lost_after_the_first_result_ends_no_batch(
    course, handed_in, desk, root, tmp_path
):
    """The box is killed, and the next one does not start; the submission gets a third one."""
    keep(handed_in, *POINTS_OF_FOUR)
    for name in POINTS_OF_FOUR:
        hand_in(handed_in, name, f"import time\ntime.sleep(1)\n{CLASS[name][0]}")
    tools, folder, book = tmp_path / "tools", tmp_path / "boxes", tmp_path / "g.sqlite"
    tools.mkdir()
    folder.mkdir()
    text = SOMETIMES.format(folder=folder, real=shutil.which("bwrap"))
    (tools / "bwrap").write_text(text)
    (tools / "bwrap").chmod(0o755)
    command = batch_of(handed_in, book, course, "--jobs", 1, "--isolation", "bubblewrap")
    path = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    with processes.started(command, cwd=root, env=path) as batch:
        until(lambda: batch.poll() is not None or graded(book))
        for process in descendants(batch.pid):
            if b"boot.py" in command_of(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        said = batch.communicate(timeout=600)[1]
    assert (batch.returncode, desk.points()) == (0, POINTS_OF_FOUR), said
    assert 3 <= len(list(folder.iterdir()))


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.usefixtures("grading")
def test_a_broken_suite_is_the_graders_fault_for_everybody(desk, course, handed_in):
    keep(handed_in, "ada", "bob")
    hidden = course / "tests" / "hidden" / "relu" / "test_hidden.py"
    hidden.write_text(hidden.read_text().replace("n if n >= 0 else 0.0", "abs(n, x)"))
    assert "2 students: 2 grader error" in desk(f"{BATCH} --jobs 1", code=3)
    assert desk.points() == {"ada": None, "bob": None}
