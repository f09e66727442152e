"""Turns of a GPU, with real processes that wait, use it, and are killed or stopped.

Only the GPU is a stand-in: its node is a file, and the memory in use is a number in another file.
"""

import errno
import fcntl
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from grader.base.errors import MachineFault
from grader.sandbox import turns
from grader.sandbox.gpus import Gpu
from grader.sandbox.turns import QueueState, Ticket, User
from tests.grader.ordinary_user import NEEDS_ROOT
from tests.grader.processes import until

ROOT = Path(__file__).resolve().parents[3]
MIB = 2**20

# Takes turns, each of which ends when a line arrives on stdin.
GRADER = """
import os, sys
from pathlib import Path
from grader.sandbox import gpus, turns

class Counted(gpus.Gpu):
    def used_bytes(self):
        return int(self.nodes[0].with_name("used").read_text())

folder, user, count, turns.PATIENT_LOOKS = sys.argv[1], *map(int, sys.argv[2:])
turns.LOOK_SECONDS, turns.GIVE_BACK_SECONDS = 0.02, 600.0
os.setuid(user)
gpu = Counted(0, "GPU-0a1b", "Stand-in 8000", "599.01", 1, "", (Path(folder, "nvidia0"),), ())
for _ in range(count):
    told = []
    with turns.turn(gpu, told.append):
        print("turn", *told[-1:], flush=True)
        sys.stdin.readline()
"""


class Counted(Gpu):
    """A GPU that says in a file how much of its memory is in use."""

    def used_bytes(self):
        """The number in the file."""
        return int(self.nodes[0].with_name("used").read_text())


@pytest.fixture
def folder():
    """A folder that all users may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="turns-") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture
def gpu(folder, monkeypatch):
    """A GPU whose node is a file, with a queue of its own."""
    (folder / "nvidia0").touch()
    (folder / "used").write_text("0")
    monkeypatch.setenv(turns.FOLDER_VARIABLE, str(folder / "queues"))
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.02)
    nodes = (folder / "nvidia0",)
    return Counted(0, "GPU-0a1b", "Stand-in 8000", "599.01", 2**34, "0000:01:00.0", nodes, ())


@pytest.fixture
def grader(gpu, folder):
    """A function that starts a process, which takes this many turns as this user.

    On a busy machine, `patience` lets nobody pass one that is only slow.
    """
    started = []

    def start(*, user=None, count=1, patience=10**9):
        user = os.geteuid() if user is None else user
        process = subprocess.Popen(
            [sys.executable, "-c", GRADER, *map(str, (folder, user, count, patience))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    os.close(turns.folder_of(gpu.uuid))
    yield start
    for process in started:
        process.kill()
        process.communicate()


def look(gpu):
    """The queue at present."""
    folder = turns.folder_of(gpu.uuid)
    try:
        return turns.look_into(folder)
    finally:
        os.close(folder)


def folder_of(gpu):
    """The folder of a GPU's queue."""
    return turns.root() / gpu.uuid


def is_locked(gpu):
    """Whether a process has the lock of a turn."""
    folder = turns.folder_of(gpu.uuid)
    try:
        return not turns._locks(folder, fcntl.LOCK_SH)
    finally:
        os.close(folder)


def waiting(gpu):
    """The processes that wait, in the order of their turns."""
    return [ticket.process for ticket in look(gpu).waiting]


def has_a_turn(process):
    """Wait until a process says that it has its turn; return what it was told before."""
    line = process.stdout.readline()
    assert line.startswith("turn")
    return line.removeprefix("turn").strip()


def joins(gpu, process):
    """Wait until a process waits."""
    until(lambda: process.pid in waiting(gpu))
    return process


def goes_on(process):
    """Let a process end its turn."""
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_graders_never_have_one_gpu_at_once(gpu, grader):
    """The second one is told who has it, and gets it as soon as the first one is killed."""
    first = grader()
    has_a_turn(first)
    second = joins(gpu, grader())
    user = look(gpu).waiting[0].who.partition(" ")[0]
    assert look(gpu).holder.process == first.pid
    first.kill()
    said = re.sub(r"\d+ s", "7 s", has_a_turn(second))
    assert said in (
        f"waiting for GPU 0: 1 turn ahead, wait unknown; {user} (process {first.pid}) "
        "has had it for 7 s",
        "",  # it was killed before the second one had looked
    )
    assert (look(gpu).holder.process, look(gpu).left) == (second.pid, [])


def test_a_batch_lets_another_command_of_its_user_go_between_its_submissions(gpu, grader):
    """The order of turns of a batch of four and two single grades."""
    batch = grader(count=4)
    has_a_turn(batch)
    one, other = (joins(gpu, grader()) for _ in range(2))
    goes_on(batch)
    has_a_turn(one)
    joins(gpu, batch)
    assert [other.pid, batch.pid] == waiting(gpu)
    goes_on(one)
    has_a_turn(other)
    goes_on(other)
    has_a_turn(batch)


@NEEDS_ROOT
def test_users_alternate_however_many_commands_each_has(gpu, grader):
    """A user with one command waits for one turn, not for three. Each writes own files only."""
    ada = [grader(user=10001, count=2)]
    has_a_turn(ada[0])
    ada += [joins(gpu, grader(user=10001)) for _ in range(2)]
    bob = joins(gpu, grader(user=10002, count=2))
    assert [bob.pid, ada[1].pid, ada[2].pid] == waiting(gpu)
    goes_on(ada[0])
    has_a_turn(bob)
    joins(gpu, ada[0])
    goes_on(bob)
    has_a_turn(ada[1])
    joins(gpu, bob)
    assert [bob.pid, ada[2].pid, ada[0].pid] == waiting(gpu)
    assert {10001: 3, 10002: 2} == {uid: user.turn for uid, user in look(gpu).users.items()}


def test_a_grader_that_is_killed_while_it_waits_is_not_waited_for(gpu, grader):
    """Its ticket disappears, and the place of those behind it changes."""
    first = grader()
    has_a_turn(first)
    second, third = joins(gpu, grader()), joins(gpu, grader())
    second.kill()
    second.wait()
    until(lambda: waiting(gpu) == [third.pid])
    goes_on(first)
    has_a_turn(third)


def test_a_grader_that_is_stopped_while_it_waits_is_passed_and_keeps_its_place(gpu, grader):
    """A stopped process does not leave the GPU idle, and goes next when it continues."""
    first = grader()
    has_a_turn(first)
    second = joins(gpu, grader())
    third = joins(gpu, grader(patience=5))
    second.send_signal(signal.SIGSTOP)
    goes_on(first)
    has_a_turn(third)
    fourth = joins(gpu, grader())
    assert [second.pid, fourth.pid] == waiting(gpu)
    second.send_signal(signal.SIGCONT)
    goes_on(third)
    has_a_turn(second)


def test_the_memory_of_a_killed_grader_is_waited_for(gpu, grader, folder):
    """The next turn begins when the memory in use is down to what it was before that turn."""
    (folder / "used").write_text(str(100 * MIB))
    first = grader()
    has_a_turn(first)
    (folder / "used").write_text(str(5000 * MIB))
    second = joins(gpu, grader())
    first.kill()
    first.wait()
    until(lambda: is_locked(gpu))
    assert [second.pid] == waiting(gpu), "it has the folder's lock, and no turn yet"
    (folder / "used").write_text(str(150 * MIB))
    has_a_turn(second)
    assert 150 * MIB == look(gpu).holder.used_bytes


def test_memory_that_never_comes_back_is_reported_and_ends_no_queue(gpu, monkeypatch, folder):
    """The check before the tests then decides whether the GPU has enough memory for a test."""
    os.close(turns.folder_of(gpu.uuid))
    (folder_of(gpu) / "turn-1-99999999-0a1b2c3d-1000-0").write_text("GPU 0 (Stand-in 8000)")
    (folder / "used").write_text(str(700 * MIB))
    monkeypatch.setattr(turns, "GIVE_BACK_SECONDS", 0.1)
    told = []
    for _ in range(2):
        with turns.turn(gpu, told.append):
            assert look(gpu).holder.process == os.getpid()
    assert ["GPU 0 (Stand-in 8000) still holds 700 MiB after a grader was killed"] == told


def test_a_turn_that_ends_in_an_exception_is_one_of_a_dead_grader_to_the_next(gpu):
    """The lock is free, and the next turn waits for the memory before it begins."""
    with pytest.raises(KeyboardInterrupt), turns.turn(gpu, print):
        raise KeyboardInterrupt
    assert (1, None) == (len(look(gpu).left), look(gpu).holder)
    with turns.turn(gpu, print):
        assert look(gpu).left == []


def test_files_of_before_a_reboot_and_foreign_ones_change_nothing(gpu):
    """No lock of the kernel survives a reboot, so every old ticket is one of a dead grader."""
    os.close(turns.folder_of(gpu.uuid))
    for name in ("wait-1-1-0a1b2c3d", "turn-1-1-0a1b2c3d-99999999999-0", "wait-x", "\udcff"):
        (folder_of(gpu) / name).write_bytes(b"GPU\x1b[2J\xff")
    (folder_of(gpu) / "wait-2-1-0a1b2c3d").symlink_to("/etc/passwd")
    (folder_of(gpu) / "wait-3-1-0a1b2c3d").mkdir()
    os.mkfifo(folder_of(gpu) / "wait-4-1-0a1b2c3d")
    with turns.turn(gpu, pytest.fail):
        assert [] == look(gpu).waiting
    for file in folder_of(gpu).glob("user-*"):
        file.write_bytes(b"GPU\x1b[2J\xff")
    assert "GPU\\x1b[2J\ufffd" == look(gpu).label
    assert not (folder_of(gpu) / "wait-1-1-0a1b2c3d").exists()


def test_a_ticket_that_somebody_removes_is_replaced(gpu, grader):
    """A cleaner of /tmp ends no wait."""
    first = grader()
    has_a_turn(first)
    second = joins(gpu, grader())
    for file in folder_of(gpu).glob("*-*"):
        file.unlink()
    joins(gpu, second)
    goes_on(first)
    has_a_turn(second)


def test_a_gpu_that_another_program_has_locked_is_waited_for(gpu, grader):
    """Graders with another folder, or of an earlier version, lock the node."""
    with gpu.lock(pytest.fail):
        held = grader()
        joins(gpu, held)
        until(lambda: is_locked(gpu))
        assert [held.pid] == waiting(gpu)
    said = has_a_turn(held)
    assert said == (
        "waiting for GPU 0 (Stand-in 8000): a process that is not in its queue has locked it"
    )


@NEEDS_ROOT
def test_a_folder_that_is_closed_to_others_is_a_fault_of_the_machine(gpu, folder):
    """The message names the variable that chooses another folder."""
    os.close(turns.folder_of(gpu.uuid))
    folder_of(gpu).chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", GRADER, str(folder), "10001", "1", "25"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        "grader.base.errors.MachineFault: the queue for the GPU cannot be kept in "
        f"{turns.root()}: its owner does not let others write to it; set GRADER_GPU_QUEUES to a "
        "folder to which everybody who grades on this machine can write"
    )


def test_a_full_disk_is_a_fault_of_the_machine_and_loses_no_result(gpu, monkeypatch):
    """A turn that has begun ends without the average, and its lock is released."""

    def full(file, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        with turns.turn(gpu, pytest.fail):
            (user,) = folder_of(gpu).glob("user-*")
            user.unlink()
            patched.setattr(os, "write", full)
        with pytest.raises(MachineFault, match="No space left on device"), turns.turn(gpu, print):
            pass
    assert not is_locked(gpu)


def test_a_link_in_place_of_the_folder_is_refused(gpu, folder):
    """Otherwise another user could choose where this user's files are written."""
    turns.root().symlink_to(folder)
    with pytest.raises(MachineFault, match=r"queues: (Not a directory|Too many levels)"):
        turns.folder_of(gpu.uuid)


# --- without processes ----------------------------------------------------------------------------


def test_the_expected_wait_is_that_of_measured_turns(monkeypatch):
    """The average follows the last turns, and the time that the holder has had is subtracted."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    one, two, holder = (Ticket(name, 99991, 5, 50 + i) for i, name in enumerate("abc"))
    queue = QueueState([one, two], label="GPU 0 (Stand-in 8000)")
    assert [
        "GPU 0 (Stand-in 8000): user 99991 (process 50) is next; no turn was measured yet",
        "  1. user 99991 (process 50): wait unknown",
        "  2. user 99991 (process 51): wait unknown",
    ] == list(queue.lines())
    queue.users = {1: User(7, 10.0, 20), 2: User(6, 40.0, 10)}
    assert queue.told(two) == (
        "waiting for GPU 0: 1 turn ahead, about 20 s; user 99991 (process 50) is next"
    )
    queue.holder = replace(holder, started=988.0)
    assert queue.told(two) == (
        "waiting for GPU 0: 2 turns ahead, about 28 s; user 99991 (process 52) has had it for 12 s"
    )
    queue.holder = replace(holder, started=900.0)
    assert queue.told(one) == (
        "waiting for GPU 0: 1 turn ahead, more than the usual 20 s; "
        "user 99991 (process 52) has had it for 1 min 40 s"
    )
    users = itertools.accumulate([12.0] * 3, lambda user, s: user.after(s), initial=User())
    assert [0.0, 12.0, 12.0, 12.0] == [user.seconds for user in users]
    assert User(1, 10.0, 20).after(30.0) == User(1, 11.0, 20)


def test_a_clock_that_jumps_changes_no_order(gpu, monkeypatch):
    """Neither a negative time nor a huge one leaves a file that cannot be read."""
    for now in (-1e6, 1e6, -1e9, 5.0):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        with turns.turn(gpu, pytest.fail):
            assert look(gpu).holder.process == os.getpid()
            monkeypatch.setattr(time, "monotonic", lambda now=now: -now)
    (user,) = look(gpu).users.values()
    assert (user.turn, user.count) == (4, 4)


def test_a_folder_that_changes_while_it_is_read_is_read_again(gpu, monkeypatch):
    """Without a user's file, which has just been renamed, this user would go first."""
    with turns.turn(gpu, pytest.fail):
        pass
    listed = [["user-1-0-1-0a1b2c3d"], *[os.listdir(folder_of(gpu))] * 9]
    monkeypatch.setattr(os, "listdir", lambda folder: listed.pop(0))
    assert [1] == [user.turn for user in look(gpu).users.values()]
    assert len(listed) == 8


@pytest.mark.parametrize("seed", range(20))
def test_nobody_waits_longer_than_the_bound(seed):
    """Commands come and go at random: each waits for less than k × U turns, see turns.py."""
    draw = random.Random(seed)
    users, last, number = range(draw.randint(2, 6)), {}, 0
    waiting, bounds, served = {}, {}, 0
    for _ in range(600):
        owner = draw.choice(users)
        if draw.random() < 0.6 and len(waiting) < 20:
            number += 1
            ticket = Ticket(f"{number}", owner, number, 0)
            place = 1 + sum(other.owner == owner for other in waiting.values())
            waiting[number], bounds[number] = ticket, (served, place * len(users))
        elif waiting and draw.random() < 0.2:
            del waiting[draw.choice(list(waiting))]  # killed
        elif waiting:
            ticket = turns.in_order(waiting.values(), last)[0]
            del waiting[ticket.number]
            since, bound = bounds[ticket.number]
            assert served - since < bound
            served += 1
            last[ticket.owner] = served
    assert served > 100
