"""A pool of processes that each have a sandbox of their own and do one task at a time.

A task is a module-level function with its arguments; it gets the course and the process's sandbox
from `own_course` and `own_sandbox`. Its result is pickled, which is safe because only the trusted
process creates it. This module does not import torch, so that a process starts its sandbox before
its own slow imports.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any, TypeVar

from grader import OBJECTS_BETWEEN_COLLECTIONS
from grader.base import interrupts
from grader.base.errors import GraderFault
from grader.course.courses import Course
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import Isolation
from grader.sandbox.sandbox import Sandbox

FROM_TERMINALS = (signal.SIGINT, signal.SIGHUP)
Returned = TypeVar("Returned")


class Pool:
    """The processes, as a context manager; an exception inside the block stops all of them at once.

    Args:
        course: The course whose probes the sandboxes show.
        jobs: The number of processes.
        gpu: The GPU that submissions get.
        isolation: What isolates a submission; None if no task needs a sandbox.
    """

    def __init__(
        self, course: Course, jobs: int, *, gpu: Gpu | None = None, isolation: Isolation | None
    ) -> None:
        # A fork of a process with threads may hang in its first matmul.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, context, _start, (course, gpu, isolation))

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        if error is not None:
            for process in multiprocessing.active_children():
                process.terminate()
        self.close()

    def close(self) -> None:
        """Wait until the processes have ended their tasks and their sandboxes."""
        self._pool.shutdown(cancel_futures=True)

    def submit(
        self, ended: "SimpleQueue[Future[Returned]]", task: Callable[..., Returned], *arguments: Any
    ) -> "Future[Returned]":
        """Run a task in one of the processes.

        Args:
            ended: Receives the task's future as soon as the task has ended. To wait for the future
                itself is not safe: an interrupt during the wait may leave a lock of the future
                locked, and the pool needs that lock to stop.
            arguments: Its arguments.

        Raises:
            BrokenProcessPool: A process has died, which also stops all tasks that were running.
        """
        with _deaf_children():
            future = self._pool.submit(task, *arguments)
            future.add_done_callback(ended.put)
        return future


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Make processes started inside the block ignore Ctrl-C, because the parent stops them.

    A terminal sends Ctrl-C to all processes. The parent itself handles Ctrl-C after the block, when
    the pool knows all its processes.
    """
    with interrupts.held():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_TERMINALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def usual_jobs() -> int:
    """The number of processors available to this process."""
    return len(os.sched_getaffinity(0))


# --- in a process of its own ----------------------------------------------------------------------


_course: Course | None = None
_sandbox: Sandbox | GraderFault | OSError | None = None
_to_close: list[Callable[[], None]] = []
_closing = threading.Lock()


def own_course() -> Course:
    """The course of this process."""
    assert _course is not None
    return _course


def own_sandbox() -> Sandbox:
    """The sandbox of this process.

    Raises:
        GraderFault: It could not be started.
        OSError: A file of the course is missing, or the machine cannot write one.
    """
    assert _sandbox is not None
    if isinstance(_sandbox, Exception):
        raise _sandbox
    return _sandbox


def close_at_end(close: Callable[[], None]) -> None:
    """Call `close` once when this process exits, in whichever way it exits."""
    if not _to_close:
        Finalize(None, _close_everything, exitpriority=1)
    _to_close.append(close)


def _close_everything() -> None:
    """Close what is still open; return when nothing is, even if another thread closes it."""
    with _closing, ExitStack() as stack:
        while _to_close:
            stack.callback(_to_close.pop())


def _start(course: Course, gpu: Gpu | None, isolation: Isolation | None) -> None:
    """Start this process's sandbox, which all of its tasks use."""
    global _course, _sandbox
    _course = course
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    for number in FROM_TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FROM_TERMINALS)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=leave).start())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    if isolation is None:
        return
    # If this process is told to end now, it waits until it has a box that it can close. Otherwise,
    # the box's folder would be left.
    with _closing:
        try:
            _sandbox = Sandbox.of(course, isolation=isolation, gpu=gpu)
        except (GraderFault, OSError) as e:
            # An exception would break the pool and lose the message.
            _sandbox = e
            return
        close_at_end(_sandbox.close)


def _end_with_the_parent() -> None:
    """Wait until the parent process has exited, then end this process.

    Otherwise a process of the pool would wait for work forever.
    """
    if parent := multiprocessing.parent_process():
        parent.join()
        leave()


def leave() -> None:
    """Close everything and end this process.

    Call this in a thread, because the main thread may hold a lock while it waits for the box. There
    may be several calls at once, because the parent's exit and the pool both send SIGTERM, and the
    process may be exiting already. Errors are not shown, because the main thread may still be using
    the things that are closed.
    """
    try:
        with suppress(Exception):
            _close_everything()
    finally:
        os._exit(1)
