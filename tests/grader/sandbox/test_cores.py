"""The core that the two sides of a test share."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from grader.sandbox import cores
from grader.sandbox.cores import SharedCore

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
