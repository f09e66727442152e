"""Commands that grade on one GPU at the same time, each in a process of its own."""

import os
import signal
import sys

import pytest

from grader.sandbox import gpu_turns
from tests.grader.classroom.a_class import NO_SHIFT, SOLVED, hand_in
from tests.grader.commands_on_stand_in import Machine
from tests.grader.processes import started, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gpu-turns")]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with a simulated GPU, whose queue this process uses too."""
    made = Machine(tmp_path)
    monkeypatch.setenv(gpu_turns.FOLDER_VARIABLE, made.environment[gpu_turns.FOLDER_VARIABLE])
    return made


@pytest.mark.proof
def test_a_batch_and_a_grade_share_a_gpu_and_kill_9_gives_it_to_the_next(machine, grader, tmp_path):
    """The grade goes between two submissions of the batch; each submission has one result."""
    (tmp_path / "in").mkdir()
    for i, source in enumerate((SOLVED, NO_SHIFT, SOLVED)):
        hand_in(tmp_path / "in", f"s{i}", f"{source}# {i}\n")
    book = tmp_path / "class.sqlite"
    batch = ["batch", tmp_path / "in", "--gradebook", book, "--jobs", "4"]
    grade = ["grade", tmp_path / "in" / "s1.zip"]

    def start(command):
        options = ["--course", machine.course, "--device", "cuda"]
        words = [sys.executable, "-m", "grader", *command, *options]
        return started(words, env=machine.environment, start_new_session=True)

    machine.keep_tests()
    with machine.turn():
        first = start(batch)
        until(lambda: machine.queue() == [os.getpid(), first.pid])
        one = start(grade)
        until(lambda: machine.queue() == [os.getpid(), first.pid, one.pid])
        shown = grader("queue", env={**machine.environment, "PYTHONPATH": ""}).stdout.splitlines()
    assert shown[0].startswith("GPU 0 (Simulated 8000): ")
    assert shown[0].endswith(f"(process {os.getpid()}) has it")
    assert (shown[2][:5], f"(process {one.pid})" in shown[2]) == ("  2. ", True)
    until(lambda: machine.log)
    assert machine.queue()[0] == first.pid
    os.killpg(first.pid, signal.SIGKILL)
    machine.let_tests_end()
    first.communicate()
    out, said = one.communicate(timeout=600)
    assert (one.returncode, "relu" in out) == (0, True), said
    assert "grader: waiting for GPU 0: 2 turns ahead; " in said
    again = start(batch)
    _, said = again.communicate(timeout=600)
    assert again.returncode == 0, said
    assert [["passed"]] * 3 == machine.results(book)
    done = machine.graded()
    assert (sum(done.values()), done[one.pid]) == (4, 1)
    assert machine.queue() == []
