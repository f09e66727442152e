"""The core that the two sides of a test share."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from grader.base.errors import Crashed, GraderFault
from grader.sandbox import cores
from grader.sandbox.cores import SharedCore
from tests.grader.in_the_sandbox import MIB, answer, ask, fault, plain_box, session, warm

# Stands in for a zygote: it forks a child, and says so.
PARENT = """
import os, sys
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print("forked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def no_other_graders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graders of other tests keep to no core of this test's."""
    monkeypatch.setattr(cores, "NAME", f"\0core-{{}}-of-{os.getpid()}")


@pytest.fixture
def parent() -> Iterator[int]:
    """The id of a process that has a child."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"forked\n"
        yield process.pid


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


def test_a_thread_shares_its_core_with_the_children_of_a_process(parent: int) -> None:
    """The process itself may go on with something else on another core."""
    allowed = os.sched_getaffinity(0)
    shared = SharedCore()
    shared.take(parent)
    taken = os.sched_getaffinity(0)
    (child,) = children_of(parent)
    others = [os.sched_getaffinity(pid) for pid in (parent, child)]
    shared.leave()
    assert len(taken) == 1
    assert taken <= allowed
    assert others == [allowed, taken]
    assert os.sched_getaffinity(0) == allowed


def test_they_follow_to_another_core(parent: int) -> None:
    allowed = os.sched_getaffinity(0)
    shared = SharedCore()
    (child,) = children_of(parent)
    seen = {}
    try:
        for core in allowed:
            os.sched_setaffinity(0, {core})
            shared.take(parent)
            shared.leave()
            seen[core] = [os.sched_getaffinity(pid) for pid in (0, parent, child)]
    finally:
        os.sched_setaffinity(0, allowed)
    assert seen == {core: [{core}, allowed, {core}] for core in allowed}


def test_to_take_a_core_twice_does_not_forget_the_others(parent: int) -> None:
    """A test may end before its process is asked to."""
    allowed = os.sched_getaffinity(0)
    shared = SharedCore()
    shared.take(parent)
    shared.take(parent)
    shared.leave()
    assert os.sched_getaffinity(0) == allowed


def test_no_two_graders_keep_to_the_same_core(parent: int) -> None:
    """Even if all begin on the same one. One that finds no core uses all of them."""
    allowed = os.sched_getaffinity(0)
    late = SharedCore()
    late.take(parent)
    late.leave()
    early, taken = [SharedCore() for _ in allowed], []
    for shared in early:
        shared.take(parent)
        taken.append(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed)
    late.take(parent)
    of_the_late = [os.sched_getaffinity(pid) for pid in (0, parent, *children_of(parent))]
    for shared in early:
        shared.leave()
    assert sorted(taken, key=min) == [{core} for core in sorted(allowed)]
    assert of_the_late == [allowed] * 3
    late.take(parent)  # the cores are free again
    assert len(os.sched_getaffinity(0)) == 1
    late.leave()


def test_the_sides_may_part_for_a_while(parent: int) -> None:
    """While they are apart, the thread is on the other cores."""
    allowed = os.sched_getaffinity(0)
    shared = SharedCore()
    shared.take(parent)
    taken = os.sched_getaffinity(0)
    shared.part()
    assert os.sched_getaffinity(0) == (allowed - taken or allowed)
    shared.meet()
    assert os.sched_getaffinity(0) == taken
    shared.part()
    shared.leave()
    shared.meet()
    assert os.sched_getaffinity(0) == allowed


def test_another_thread_may_end_it(parent: int) -> None:
    """A signal may close a sandbox in another thread."""
    allowed = os.sched_getaffinity(0)
    shared = SharedCore()
    shared.take(parent)
    other = threading.Thread(target=shared.leave)
    other.start()
    other.join()
    assert os.sched_getaffinity(0) == allowed


def test_nothing_changes_for_a_process_that_has_ended() -> None:
    allowed = os.sched_getaffinity(0)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    shared = SharedCore()
    shared.take(process.pid)
    assert os.sched_getaffinity(0) == allowed
    shared.leave()
    assert os.sched_getaffinity(0) == allowed


CORES = """
    import os
    def f():
        return sorted(os.sched_getaffinity(0))
"""


@warm
def test_both_sides_of_a_test_share_a_core(sandbox):
    """And afterwards, the grader may use all its cores again."""
    allowed = os.sched_getaffinity(0)
    try:
        for core in sorted(allowed):  # so that the child that waits is on the core before
            os.sched_setaffinity(0, {core})
            with session(sandbox, CORES) as made:
                assert ask(made) == [core]
        os.sched_setaffinity(0, allowed)
        with session(sandbox, CORES) as made:
            # If the graders of other tests have all cores, these are all of them.
            assert ask(made) == sorted(os.sched_getaffinity(0))
        assert os.sched_getaffinity(0) == allowed
    finally:
        os.sched_setaffinity(0, allowed)


@warm
def test_the_sides_part_while_a_large_frame_crosses(sandbox, monkeypatch):
    """One writes while the other reads. For other frames, they stay on their core."""
    parted = []
    really_part = sandbox.core.part
    monkeypatch.setattr(
        sandbox.core, "part", lambda: (really_part(), parted.append(os.sched_getaffinity(0)))
    )
    source = """
        import torch
        def f(x, size):
            return [len(x), torch.ones(size, dtype=torch.uint8)]
    """
    large = 5 * MIB
    with session(sandbox, source) as made:
        ask(made, torch.ones(9), 7)
        shared, seen = os.sched_getaffinity(0), []
        for size, answered in [(9, 7), (large, 7), (9, large), (large, large)]:
            parted.clear()
            count, got = ask(made, torch.ones(size, dtype=torch.uint8), answered)
            assert (size, answered) == (count, got.numel())
            assert os.sched_getaffinity(0) == shared
            seen.append(len(parted))
    assert seen == [0, 1, 1, 1]
    if len(shared) == 1 < len(os.sched_getaffinity(0)):  # other tests may have all cores
        assert not shared & parted[0]


@warm
def test_a_test_that_is_killed_leaves_the_core(sandbox):
    """However a test ends, the grader may use all its cores again."""
    allowed = os.sched_getaffinity(0)
    fault(sandbox, Crashed, "import os\ndef f(): os.kill(os.getpid(), 15)")
    assert os.sched_getaffinity(0) == allowed


def test_a_sandbox_that_is_closed_as_a_test_begins_leaves_the_thread_its_cores(monkeypatch):
    """This thread moves to the shared core after the other one has left it, and before the end."""
    before = os.sched_getaffinity(0)
    own = plain_box("bubblewrap")
    own.wait_until_ready()
    take = own.core.take

    def take_while_it_closes(zygote):
        take(zygote)
        with monkeypatch.context() as patch:
            patch.setattr(own.core, "leave", lambda: None)
            own.close()

    monkeypatch.setattr(own.core, "take", take_while_it_closes)
    with pytest.raises(GraderFault, match=r"^the sandbox has been closed$"):
        answer(own, "def f(): return 1")
    assert before == os.sched_getaffinity(0)
