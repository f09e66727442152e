"""Turns of a GPU, with real processes; only the GPU is a file, which says what memory is in use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.base.errors import MachineFault
from grader.sandbox import gpu_turns
from grader.sandbox.gpus import Gpu
from tests.grader.processes import until

GRADER = """
import sys
from tests.grader.sandbox.test_gpu_turns import gpu_turns, stand_in
gpu_turns.GIVE_BACK_SECONDS = 600.0
while True:
    with gpu_turns.turn(stand_in(sys.argv[1]), lambda told: None):
        print("turn", flush=True)
        sys.stdin.readline()  # ends the turn
"""


class Counted(Gpu):
    """A GPU that says in its node how much of its memory is in use."""

    def used_bytes(self):
        return int(self.nodes[0].read_text() or 2**30)  # empty while a test writes it


def stand_in(node):
    return Counted(0, "GPU-1", "Stand-in", "1", 1, "", (Path(node),), ())


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    (tmp_path / "node").write_text("0")
    monkeypatch.setenv(gpu_turns.FOLDER_VARIABLE, str(tmp_path / "queues"))
    return stand_in(tmp_path / "node")


@pytest.fixture
def joins(gpu, root):
    """A function that starts a grader and waits until it has a ticket."""
    started = []

    def start():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        line = [sys.executable, "-c", GRADER, str(gpu.nodes[0])]
        started.append(subprocess.Popen(line, cwd=root, **pipes))
        until(lambda: started[-1].pid in processes())
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def processes():
    """The processes that have or want the GPU, in the order of their turns."""
    return [ticket.process for ticket in gpu_turns.queue("GPU-1")]


def test_the_gpu_goes_to_who_came_first_also_after_a_kill(gpu, joins):
    """A command goes to the end after each turn. After a kill, memory is waited for."""
    first, second, third, fourth = (joins() for _ in range(4))
    assert first.stdout.readline() == "turn\n"
    assert processes() == [process.pid for process in (first, second, third, fourth)]
    ahead, who = gpu_turns.queue()[:3], gpu_turns.queue()[0].who
    assert gpu_turns._told(ahead) == f"waiting for GPU 0: 3 turns ahead; {who} has it"
    shown = [line.partition(".")[0] for line in gpu_turns.lines()]
    assert [f"GPU 0 (Stand-in): {who} has it", "  3"] == shown[::3]
    third.kill()
    first.stdin.write("\n")
    assert second.stdout.readline() == "turn\n"
    until(lambda: processes() == [second.pid, fourth.pid, first.pid])
    gpu.nodes[0].write_text(str(2**30))
    second.kill()
    until(lambda: processes() == [fourth.pid, first.pid])
    assert len(gpu_turns._tickets()) == 4, "a turn that begins removes what is left"
    gpu.nodes[0].write_text("0")
    assert fourth.stdout.readline() == "turn\n"


def test_tickets_of_before_a_reboot_and_other_files_change_nothing(gpu):
    """A turn that ends in an exception is one of a dead grader to the next."""
    with pytest.raises(KeyboardInterrupt), gpu_turns.turn(gpu, pytest.fail):
        raise KeyboardInterrupt
    (gpu_turns.root() / "GPU-1.7.1").write_bytes(b"GPU\x1b[2J\xff")
    (gpu_turns.root() / "GPU-1.8.1").symlink_to("/etc/passwd")
    os.mkfifo(gpu_turns.root() / "GPU-1.9.1")
    (gpu_turns.root() / "GPU-2.6.1").touch()
    with gpu_turns.turn(gpu, pytest.fail):
        assert (gpu_turns.root() / "GPU-2.6.1").exists()  # whoever has that GPU is not asked for it
        assert (processes(), gpu_turns.waits(gpu)) == ([os.getpid()], "")
    assert processes() == []


def test_a_folder_that_cannot_be_used_is_a_fault_of_the_machine(gpu, tmp_path):
    """So is a link, by which another user could choose where this user's files are written."""
    gpu_turns.root().symlink_to(tmp_path)
    words = r"queues: .*; set GRADER_GPU_QUEUES to a folder"
    with pytest.raises(MachineFault, match=words), gpu_turns.turn(gpu, print):
        pass
