"""Ctrl-C and SIGTERM at any moment give one line and a clear exit code, and leave nothing."""

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from grader.base import files, interrupts
from tests.grader import small_courses
from tests.grader.in_the_sandbox import plain_box
from tests.grader.in_this_process import run_on
from tests.grader.processes import ran, started, until
from tests.grader.sampling import every

INTERRUPTED = "grader: interrupted; nothing was written\n"
OLD = b"an earlier result\n"

# Runs a command as a subreaper (orphans of the command become its children), sends a signal at a
# given moment, and prints how the command ended and which processes are left. Arguments: the
# moment, seconds to wait after it, pid or group, the signal, the command.
DRIVER = """
import ctypes, json, os, signal, subprocess, sys, time
from tests.grader.processes import statuses
moment, seconds, whom, number, *command = sys.argv[1:]
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

def children(*pids):
    found = [s for s in statuses() if int(s["PPid"]) in pids and s["State"][0] != "Z"]
    return [(int(status["Pid"]), status["Name"]) for status in found]

def watched(pid):
    (caught,) = [status["SigCgt"] for status in statuses() if status["Pid"] == str(pid)]
    return int(caught, 16) >> (signal.SIGTERM - 1) & 1

REACHED = {
    "start": lambda: watched(process.pid),
    "box": lambda: any(name == "bwrap" for _, name in children(process.pid)),
    "pool": lambda: len(children(process.pid)) >= 2,
    "trials": lambda: "bwrap" in dict(map(reversed, children(*dict(children(process.pid))))),
}
pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
process = subprocess.Popen(command, **pipes, start_new_session=True)
while process.poll() is None and not REACHED[moment]():
    time.sleep(0.03)
time.sleep(float(seconds))
(os.kill if whom == "pid" else os.killpg)(process.pid, int(number))
out, err = process.communicate()
for _ in range(200):  # a box ends with the grader, and frees its memory a moment later
    if not (left := children(os.getpid())):
        break
    time.sleep(0.1)
print(json.dumps([process.returncode, out, err, left]))
"""


@pytest.fixture
def interrupted(root, tmp_path):
    """Run a command and interrupt it; return its exit code, its outputs, and who is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(*arguments, moment=("start", 0.0, "pid", signal.SIGINT)):
        *moment, number = moment
        command = [sys.executable, "-m", "grader", *arguments]
        driver = [sys.executable, "-c", DRIVER, *moment, int(number), *command]
        done = ran(driver, cwd=root, env={**os.environ, "TMPDIR": str(scratch)})
        assert done.returncode == 0, done.stderr
        names = [path.name for path in scratch.iterdir()]
        assert [name for name in names if not name.startswith("torchinductor")] == []
        return tuple(json.loads(done.stdout))

    return run


SIGINT, SIGTERM = signal.SIGINT, signal.SIGTERM
MOMENTS = [
    pytest.param(("start", 0.0, "pid", SIGINT), id="at the start"),
    pytest.param(("box", 0.0, "pid", SIGINT), id="as the box starts", marks=pytest.mark.proof),
    pytest.param(("box", 0.0, "group", SIGINT), id="as the box starts, from a terminal"),
    pytest.param(("start", 0.0, "pid", SIGTERM), id="SIGTERM"),
    pytest.param(("box", 0.3, "pid", SIGTERM), id="SIGTERM later", marks=pytest.mark.proof),
]
for i in range(4):
    when = ("start", random.Random(i).uniform(0, 4), ("pid", "group")[i % 2], SIGINT)
    MOMENTS.append(pytest.param(when, id=f"at random, {i}", marks=pytest.mark.proof))


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_grade_that_is_interrupted_writes_nothing(moment, interrupted, root, tmp_path):
    """One line and exit code 130, or 143 for SIGTERM; an earlier result stays as it was."""
    shutil.copytree(root / "grader/solutions/reference", tmp_path / "ada/assignment")
    result = tmp_path / "r.json"
    result.write_bytes(OLD)
    got = interrupted("grade", tmp_path / "ada", "--json", result, moment=moment)
    assert got == (128 + moment[-1], "", INTERRUPTED, [])
    assert result.read_bytes() == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ada", "r.json", "scratch"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        ("start", 0.5, "group", SIGINT),
        ("trials", 0.0, "group", SIGINT),
        pytest.param(("pool", 0.0, "group", SIGINT), marks=pytest.mark.proof),
        pytest.param(("trials", 0.3, "pid", SIGTERM), marks=pytest.mark.proof),
    ],
    ids=["before its processes", "in its trials", "as they start", "SIGTERM"],
)
def test_a_validation_that_is_interrupted_leaves_nobody(moment, interrupted, tmp_path):
    """A Ctrl-C in a terminal reaches its child processes as well; their sandboxes end, too."""
    course = small_courses.plain_python(tmp_path / "course")  # has no torch to import
    arguments = ("validate", "--course", course, "--jobs", "2", "--only", "mean_length")
    arguments += ("--matrix", tmp_path / "m.json")
    assert interrupted(*arguments, moment=moment) == (128 + moment[-1], "", INTERRUPTED, [])
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("exits", ["", "multiprocessing.util._exit_function()"])
def test_a_process_of_the_pool_that_is_told_to_end_many_times_ends_once(root, exits):
    """A terminated pool sends SIGTERM twice, and the end of the parent is a third reason."""
    program = """
import multiprocessing.util, threading, time
from grader.sandbox import process_pool

class Slow:
    def __init__(self, name):
        self.name, self.closed = name, False
    def close(self):
        print("closes", self.name, flush=True)
        time.sleep(0.2)
        if self.closed:
            raise OSError("closed twice")
        self.closed = True
        raise RuntimeError("used by the main thread")

for name in "ab":
    process_pool.close_at_end(Slow(name).close)
for _ in range(3):
    threading.Thread(target=process_pool.leave).start()
EXITS
time.sleep(10)
""".replace("EXITS", exits)
    done = ran([sys.executable, "-c", program], cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (1, "closes a\ncloses b\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", every(3, [0.5, 0.53, 0.56]))
def test_an_interrupt_while_tasks_are_waited_for_stops_their_pool(root, tmp_path, seconds):
    """If the command waited for their futures, three of four interrupts would hang it."""
    program = tmp_path / "program.py"
    program.write_text(
        f"SECONDS, COURSE = {seconds}, {str(small_courses.plain_python(tmp_path / 'course'))!r}"
        """
import os, signal, threading, time
from pathlib import Path
from queue import SimpleQueue
from grader.base import interrupts
from grader.course import courses
from grader.sandbox.process_pool import Pool

def interrupt():
    time.sleep(SECONDS)
    os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    interrupts.watch()
    with Pool(courses.load(Path(COURSE)), 1, isolation=None) as pool:
        ended = SimpleQueue()
        waiting = {pool.submit(ended, os.getpid) for _ in range(20_000)}
        threading.Thread(target=interrupt).start()
        while waiting:
            waiting.remove(ended.get())
"""
    )
    done = ran([sys.executable, program], cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_what_was_written_before_an_interrupt_is_said(root, tmp_path):
    """While the report waits for a reader, the file is already complete; the line names it."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    cpu, cuda = (run_on(device, tmp_path / f"{device}.json") for device in ("cpu", "cuda"))
    out = tmp_path / "r.json"
    command = [sys.executable, "-m", "grader", "merge", cpu, cuda, "--json", out]
    process = started(command, cwd=root, stdout=write_end)
    until(out.exists)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    os.close(read_end)
    os.close(write_end)
    assert (process.returncode, said) == (130, f"grader: interrupted; {out} is complete\n")


@pytest.fixture
def signals():
    """Restore this process's signal handlers after the test."""
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    hook = sys.unraisablehook
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    sys.unraisablehook = hook
    interrupts._seen = 0


def test_a_signal_that_is_ignored_stays_ignored(signals):
    """`nohup` and a shell's `&` ignore signals in this way."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.watch()
    signal.raise_signal(signal.SIGHUP)
    assert interrupts.seen() == 0


def test_an_interrupt_that_is_swallowed_is_raised_again(signals):
    """An exception in a destructor is swallowed silently."""

    class Greedy:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    interrupts.watch()
    Greedy()
    assert interrupts.seen() == signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        interrupts.stop_if_seen()


@pytest.mark.parametrize("holds", [1, 2])
def test_an_interrupt_waits_for_the_end_of_the_outermost_hold(signals, holds):
    """A function that holds interrupts may be called by one that does too."""
    interrupts.watch()
    reached = []

    def interrupted(depth):
        with interrupts.held():
            interrupted(depth - 1) if depth > 1 else signal.raise_signal(signal.SIGTERM)
            reached.append(depth)

    with pytest.raises(KeyboardInterrupt):
        interrupted(holds)
    assert (len(reached), interrupts.seen()) == (holds, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", every(2, ["bubblewrap", "none"]))
def test_an_interrupt_while_a_box_is_started_leaves_nobody(isolation, signals, monkeypatch):
    """The signal arrives when the process already runs but is not registered yet."""
    interrupts.watch()
    pids = []
    real = subprocess.Popen._execute_child

    def execute(process, *arguments):
        real(process, *arguments)
        pids.append(process.pid)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess.Popen, "_execute_child", execute)
    with pytest.raises(KeyboardInterrupt):
        plain_box(isolation)
    with pytest.raises(ProcessLookupError):
        os.killpg(pids[0], 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exception ignored")  # its files are also closed late
def test_a_box_that_nobody_ends_is_ended_with_its_object():
    """An interrupt between the start and the `with` block leaves a sandbox without an owner."""
    box = plain_box("bubblewrap")
    pid = box._box.process.pid
    del box
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_nothing_is_written_after_an_interrupt(signals, tmp_path, monkeypatch):
    """This holds even if the interrupt comes during the write."""
    interrupts.watch()
    real = os.fsync

    def fsync(descriptor):
        real(descriptor)
        signal.raise_signal(signal.SIGINT)

    (tmp_path / "r.json").write_bytes(OLD)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "r.json", b"new")
    assert [(p.name, p.read_bytes()) for p in Path(tmp_path).iterdir()] == [("r.json", OLD)]


@pytest.mark.slow
def test_an_interrupt_while_a_box_is_tried_waits_for_it(root, tmp_path):
    """If bubblewrap were killed while it starts, its child would wait forever."""
    ended = tmp_path / "ended"
    real = shutil.which("bwrap")
    (tmp_path / "bwrap").write_text(
        "#!/bin/sh\n"
        f'case "$1" in --help|--version) exec {real} "$@";; esac\n'
        f'kill -INT -$PPID\nsleep 0.3\n{real} "$@"\necho $? > {ended}\n'
    )
    (tmp_path / "bwrap").chmod(0o755)
    program = "from grader.base import interrupts\nfrom grader.sandbox import levels\n"
    program += "interrupts.watch()\nlevels.LEVELS['bubblewrap'].why_not()\n"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", program]
    done = ran(command, cwd=root, env=environment, start_new_session=True)
    assert "KeyboardInterrupt" in done.stderr
    assert ended.read_text() == "0\n"
