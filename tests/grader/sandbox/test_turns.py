"""Turns of a GPU, with real processes; only the GPU is a file, which says what memory is in use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.base.errors import MachineFault
from grader.sandbox import turns
from grader.sandbox.gpus import Gpu
from tests.grader.processes import until

ROOT = Path(__file__).resolve().parents[3]
MIB = 2**20
# Takes turns, each of which ends when a line arrives on stdin.
GRADER = """
import sys
from pathlib import Path
from grader.sandbox import turns
from tests.grader.sandbox.test_turns import Counted
turns.GIVE_BACK_SECONDS = 600.0
node = Path(sys.argv[1])
while True:
    told = []
    with turns.turn(Counted(0, "GPU-1", "Stand-in", "1", 1, "", (node,), ()), told.append):
        print("turn", *told[-1:], flush=True)
        sys.stdin.readline()
"""


class Counted(Gpu):
    """A GPU that says in its node how much of its memory is in use."""

    def used_bytes(self):
        """The number in the file."""
        return int(self.nodes[0].read_text())


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A GPU with a queue of its own."""
    (tmp_path / "node").write_text("0")
    monkeypatch.setenv(turns.FOLDER_VARIABLE, str(tmp_path / "queues"))
    return Counted(0, "GPU-1", "Stand-in", "1", 1, "", (tmp_path / "node",), ())


@pytest.fixture
def joins(gpu):
    """A function that starts a grader and waits until it has a ticket."""
    started = []

    def start():
        line = [sys.executable, "-c", GRADER, str(gpu.nodes[0])]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(line, cwd=ROOT, **pipes))
        until(lambda: started[-1].pid in in_line(gpu))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def in_line(gpu):
    """The processes that have or want the GPU, in the order of their turns."""
    return [ticket.process for ticket in turns.queue(gpu.uuid)]


def ends(process):
    """Let a process end its turn."""
    process.stdin.write("\n")
    process.stdin.flush()


def test_the_gpu_goes_to_who_came_first_also_after_a_kill(gpu, joins):
    """A batch goes to the end after each turn; one that dies while it waits is not waited for."""
    first = joins()
    assert first.stdout.readline() == "turn\n"
    second, third, fourth = joins(), joins(), joins()
    assert (in_line(gpu), turns.waits(gpu)) == ([p.pid for p in (first, second, third, fourth)], "")
    who = turns.queue(gpu.uuid)[0].who
    shown = list(turns.lines())
    assert shown[0] == f"GPU 0 (Stand-in): {who} has it"
    assert shown[3].startswith("  3. ")
    third.kill()
    ends(first)
    said = second.stdout.readline()
    assert said in (f"turn waiting for GPU 0: 1 turn ahead; {who} has it\n", "turn\n"), said
    until(lambda: in_line(gpu) == [second.pid, fourth.pid, first.pid])
    second.kill()
    assert fourth.stdout.readline().startswith("turn")


def test_the_memory_of_a_killed_grader_is_waited_for(gpu, joins):
    """The next turn begins when as much memory is in use as before that turn."""
    gpu.nodes[0].write_text(str(100 * MIB))
    first = joins()
    first.stdout.readline()
    gpu.nodes[0].write_text(str(5000 * MIB))
    second = joins()
    first.kill()
    until(lambda: in_line(gpu) == [second.pid])
    assert turns.queue(gpu.uuid)[0].used == ""
    gpu.nodes[0].write_text(str(150 * MIB))
    second.stdout.readline()
    assert turns.queue(gpu.uuid)[0].used == str(150 * MIB)


def test_tickets_of_before_a_reboot_and_other_files_change_nothing(gpu, monkeypatch):
    """A turn that ended in an exception is one of a dead grader to the next."""
    monkeypatch.setattr(turns, "GIVE_BACK_SECONDS", 0.1)
    with pytest.raises(KeyboardInterrupt), turns.turn(gpu, pytest.fail):
        raise KeyboardInterrupt
    (turns.root() / "GPU-1.7.1").write_bytes(b"0: GPU\x1b[2J\xff")
    (turns.root() / "GPU-1.8.1").symlink_to("/etc/passwd")
    os.mkfifo(turns.root() / "GPU-1.9.1")
    gpu.nodes[0].write_text(str(700 * MIB))
    told = []
    for _ in range(2):
        with turns.turn(gpu, told.append):
            assert in_line(gpu) == [os.getpid()]
    assert set(told) == {"GPU 0 (Stand-in) still holds 700 MiB after a grader was killed"}


def test_a_gpu_that_another_program_has_locked_is_waited_for(gpu, joins):
    """Graders with another folder lock the same node."""
    with gpu.lock(pytest.fail):
        held = joins()
        assert turns.queue(gpu.uuid)[0].used == ""
    assert held.stdout.readline().startswith("turn")


def test_a_folder_that_cannot_be_used_is_a_fault_of_the_machine(gpu, tmp_path):
    """So is a link, by which another user could choose where this user's files are written."""
    turns.root().symlink_to(tmp_path)
    with (
        pytest.raises(MachineFault, match=r"queues: .*; set GRADER_GPU_QUEUES to a folder"),
        turns.turn(gpu, print),
    ):
        pass
    assert list(turns.lines()) == []
