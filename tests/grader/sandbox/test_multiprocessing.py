"""Student code may use `multiprocessing`, within the limits of processes, memory and files."""

import pytest

from grader.base.errors import Raised, StudentFault
from tests.grader.in_the_sandbox import (
    LEVELS,
    MIB,
    NEEDS_LANDLOCK,
    answer,
    ask,
    fault,
    session,
    warm,
)
from tests.grader.sampling import every

SOURCE = """
    import multiprocessing, os
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import shared_memory

    def square(x):
        return x * x

    def count(queue, lock, value):
        with lock:
            value.value += 1
        queue.put(os.getpid())

    def executor(context):
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            return list(executor.map(square, range(5)))

    def pool(context):
        with context.Pool(3) as pool:
            return pool.map(square, range(5))

    def queue(context):
        queue, lock, value = context.Queue(), context.Lock(), context.Value("i", 0)
        started = [context.Process(target=count, args=(queue, lock, value)) for _ in range(3)]
        for process in started:
            process.start()
        found = len({queue.get(timeout=60) for _ in started})
        for process in started:
            process.join(60)
        return found, value.value

    def shared(context):
        made = shared_memory.SharedMemory(create=True, size=4096)
        made.buf[0] = 7
        other = shared_memory.SharedMemory(name=made.name)
        seen = other.buf[0]
        other.close(), made.close(), made.unlink()
        return seen

    def locks(context):
        lock, again, many = context.Lock(), context.RLock(), context.BoundedSemaphore(2)
        event, condition = context.Event(), context.Condition()
        event.set(), context.Barrier(1).wait(60)
        taken = [lock.acquire(), lock.acquire(timeout=0.01), lock.acquire(block=False)]
        taken += [again.acquire(), again.acquire(), many.acquire(timeout=60)]
        lock.release(), again.release(), again.release(), many.release()
        for wrong in (lock, again, many):
            try:
                wrong.release()
                taken.append(True)
            except (ValueError, AssertionError):
                taken.append(False)
        return taken, event.is_set(), len(os.listdir("/proc/self/fd"))

    def manager(context):
        with context.Manager() as manager:
            return dict(manager.dict({1: 2}))

    def f(method, what):
        return globals()[what](multiprocessing.get_context(method))
"""
SQUARES = [0, 1, 4, 9, 16]
RIGHT = {"executor": SQUARES, "pool": SQUARES, "queue": (3, 3), "shared": 7, "manager": {1: 2}}
TAKEN = [True, False, False, True, True, True, False, False, False]


@warm
@pytest.mark.parametrize("method", every(3, ["spawn", "fork", "forkserver"]))
def test_each_way_to_start_a_process_works_by_bubblewrap(plain, method):
    """Pools, queues, locks, shared memory and managers work as everywhere."""
    for what, right in RIGHT.items():
        assert right == answer(plain("bubblewrap"), SOURCE, method, what), what
    assert (TAKEN, True) == answer(plain("bubblewrap"), SOURCE, method, "locks")[:2]


@warm
@NEEDS_LANDLOCK
def test_forked_processes_work_by_landlock(sandbox, plain):
    """All but a manager, which needs a socket; processes started otherwise are refused."""
    by_landlock = plain("landlock")
    for what in ("executor", "pool", "queue", "shared"):
        assert RIGHT[what] == answer(by_landlock, SOURCE, "fork", what), what
    assert (TAKEN, True) == answer(by_landlock, SOURCE, "fork", "locks")[:2]
    # Where something is forbidden, no program may be started, and a pool of processes starts none.
    for box in (sandbox, by_landlock):
        assert RIGHT["pool"] == answer(box, SOURCE, "fork", "pool", forbidden=["torch.optim"])
    for method in ("spawn", "forkserver"):
        assert 'get_context("fork")' in fault(by_landlock, Raised, SOURCE, method, "pool")[1]
        # The same words where bubblewrap forbids to start a program, which no student's code did.
        rules = {"forbidden": ["torch.optim"]}
        assert 'get_context("fork")' in fault(sandbox, Raised, SOURCE, method, "pool", **rules)[1]


KEPT = """
    import os, tempfile, time
    from multiprocessing import resource_tracker, shared_memory

    def f(size):
        resource_tracker.register = lambda *arguments: None  # which would remove what is left
        made = shared_memory.SharedMemory("message", create=True, size=size)
        made.buf[:] = bytes(size)
        time.sleep(60)

    def left():
        found = os.listdir(tempfile.gettempdir())
        try:
            found += os.listdir("/dev/shm")
        except PermissionError:  # at the landlock level, it belongs to the machine
            pass
        return found
"""


@warm
@pytest.mark.parametrize("level", LEVELS)
def test_shared_memory_counts_and_is_removed(plain, level):
    """It counts as files of the test; nothing of it is there for the next test."""
    box = plain(level)
    with session(box, KEPT, wall_seconds=30.0) as made, pytest.raises(StudentFault) as caught:
        ask(made, 64 * MIB)
    assert "time" not in str(caught.value)
    with session(box, KEPT) as made:
        assert {"submission"} == set(ask(made, function="left"))
