"""Grade everything in a gradebook that has no result yet, on all processors.

One process writes the gradebook. Each worker has one warm sandbox and grades one submission at a
time; what it sends back is the result's JSON. A result is stored as soon as it is there, so a call
that is killed loses only what was running.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from grader import interrupts
from grader import submission as submissions
from grader.classroom.gradebook import Gradebook
from grader.classroom.records import HandedIn, Student
from grader.course import Course, Problem
from grader.errors import GraderFault, SandboxUnavailable, Status, SubmissionRefused
from grader.grading.workers import Workers, own
from grader.printable import one_line
from grader.report import json as json_report
from grader.results.records import SubmissionResult
from grader.sandbox.box import Isolation
from grader.sandbox.gpu import Gpu
from grader.submission import Submission

TRIES = 2  # a fault of the grader is given a second chance
TICK_SECONDS = 0.5


@dataclass
class Progress:
    """What a batch has done so far, for a display.

    Attributes:
        total: How many submissions there are to grade.
        done: How many have a result, those with a fault included.
        faults: How many met a fault of the grader.
        running: What runs now, with the time at which it started.
        started: When the batch started.
    """

    total: int
    done: int = 0
    faults: int = 0
    running: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def seconds_to_go(self, now: float) -> float | None:
        """An estimate from what was done so far; None at the start."""
        if not self.done:
            return None
        return (now - self.started) / self.done * (self.total - self.done)


Show = Callable[[Progress], None]


@dataclass(frozen=True)
class Options:
    """How a batch grades.

    Attributes:
        problems: The problems to grade.
        device: "cpu" or "cuda".
        seed: The seed of the tests' inputs.
        isolation: What isolates a submission.
        fresh: Whether each test has a process of its own.
        jobs: The number of processes.
        gpu: The GPU that submissions get.
    """

    problems: list[Problem]
    device: str = "cpu"
    seed: int = 0
    isolation: Isolation = "bubblewrap"
    fresh: bool = False
    jobs: int = 1
    gpu: Gpu | None = None


# --- what was handed in ---------------------------------------------------------------------------


def add(
    book: Gradebook, attempts: Iterable[tuple[Student, HandedIn]], show: Callable[[str], None]
) -> int:
    """Read attempts into the gradebook; return how many are new.

    One that cannot be graded is kept with the reason.
    """
    new = 0
    for student, handed_in in attempts:
        interrupts.stop_if_seen()
        show(handed_in.path.name)
        what: Submission | str
        identity = ""
        try:
            if handed_in.doubt:
                raise SubmissionRefused(handed_in.doubt)
            what = submissions.read(handed_in.path)
        except SubmissionRefused as e:
            what = one_line(str(e).removeprefix(f"{handed_in.path.parent}/"), 500)
            identity = _hash_of(handed_in.path)
        new += book.add_attempt(
            student.id,
            one_line(handed_in.path.name, 200),
            what,
            identity=identity,
            submitted_at=handed_in.submitted_at,
            late=handed_in.late,
            number=handed_in.number or 0,
        )
    return new


def _hash_of(path: Path) -> str:
    """What tells one refused submission from another: its bytes or, of a folder, its name."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return f"name {path.name}"


# --- grading --------------------------------------------------------------------------------------


class _Queue:
    """What is left to grade, how often each was tried, and what runs."""

    def __init__(self, book: Gradebook, setup: int, to_grade: list[str]) -> None:
        self.book, self.setup = book, setup
        self.waiting = list(reversed(to_grade))
        self.tries: dict[str, int] = {}
        self.running: dict[Future[bytes], tuple[str, str]] = {}
        self.progress = Progress(len(to_grade))
        self.suspects = 0  # submissions that ran when a process was killed, the next to run

    def start(self, workers: Workers, course: Course, options: Options) -> None:
        """Give the next submission to a process that is free."""
        sources = self.waiting.pop()
        submission = self.book.submission(sources)
        self.tries[sources] = self.tries.get(sources, 0) + 1
        names = [problem.id for problem in options.problems]
        try:
            future = workers.submit(
                _graded, submission, names, options.device, options.seed, options.fresh
            )
        except BrokenProcessPool:
            self.tries[sources] -= 1
            self.waiting.append(sources)
            raise
        self.running[future] = sources, submission.name
        self.progress.running[submission.name] = time.monotonic()

    def finish(self, future: "Future[bytes]") -> None:
        """Store what a process found, or put its submission back to be tried again."""
        sources, name = self.running.pop(future)
        self.progress.running.pop(name, None)
        try:
            result = json_report.parse(future.result())
            fault = _fault_in(result)
        except BrokenProcessPool:
            result, fault = None, "the process that graded it was killed"
        except SandboxUnavailable:
            raise  # no submission can be graded on this machine
        except GraderFault as e:
            result, fault = None, str(e)
        except Exception as e:  # one submission never stops the others
            result, fault = None, f"{type(e).__name__}: {e}"
        if fault and self.tries[sources] < TRIES:
            self.waiting.append(sources)
            return
        if result is not None:
            self.book.keep(self.setup, result, fault=fault)
        else:
            self.book.note_fault(self.setup, sources, one_line(fault, 500))
        self.progress.done += 1
        self.progress.faults += bool(fault)


def grade(
    course: Course,
    book: Gradebook,
    setup: int,
    options: Options,
    *,
    limit: int | None = None,
    show: Show,
) -> Progress:
    """Grade what has no result of a setup yet, and store each result when it is there.

    Args:
        course: The course.
        book: The gradebook, open for writing.
        setup: The number of the setup in the gradebook.
        options: How to grade.
        limit: The most submissions to grade; all by default.
        show: Called several times a second.
    """
    to_grade = book.to_grade(setup)[:limit]
    queue = _Queue(book, setup, to_grade)
    while queue.waiting:
        # What ran when a process was killed runs alone now, so that it takes no other along.
        jobs = 1 if queue.suspects else min(options.jobs, len(queue.waiting))
        with Workers(course, jobs, gpu=options.gpu, isolation=options.isolation) as workers:
            try:
                _work(queue, workers, jobs, course, options, show)
            except BrokenProcessPool:
                # One process was killed, and took the pool along: start another pool.
                for future in list(queue.running):
                    queue.finish(future)
                queue.suspects = sum(queue.tries.get(sources, 0) for sources in queue.waiting)
    book.merge_devices()
    return queue.progress


def _work(
    queue: _Queue, workers: Workers, jobs: int, course: Course, options: Options, show: Show
) -> None:
    """Keep the processes busy until nothing is left, or until all suspects are done.

    Raises:
        BrokenProcessPool: A process was killed.
    """
    only_suspects = queue.suspects > 0
    while (queue.waiting and (queue.suspects or not only_suspects)) or queue.running:
        interrupts.stop_if_seen()
        while queue.waiting and len(queue.running) < jobs and (queue.suspects or not only_suspects):
            queue.suspects = max(0, queue.suspects - 1)
            queue.start(workers, course, options)
        done = wait(queue.running, timeout=TICK_SECONDS, return_when=FIRST_COMPLETED).done
        for future in done:
            broken = isinstance(future.exception(), BrokenProcessPool)
            queue.finish(future)
            if broken:
                raise BrokenProcessPool
        show(queue.progress)


def _fault_in(result: SubmissionResult) -> str:
    """The first fault of the grader in a result, in one line; empty if there is none."""
    for problem in result.problems:
        for test in problem.tests:
            if test.status is Status.GRADER_ERROR:
                return f"{problem.id}, {test.id}: {test.said}"
    return ""


def _graded(
    submission: Submission, problems: list[str], device: str, seed: int, fresh: bool
) -> bytes:
    """Grade one submission in a worker; return its result as JSON."""
    # Imports torch and pytest, while the sandbox does the same.
    from grader.grading.grade import grade as run

    course, sandbox = own()
    sandbox.wait_until_ready()
    result = run(
        submission,
        course,
        sandbox,
        problems=[course.problem(name) for name in problems],
        device=device,
        seed=seed,
        fresh=fresh,
    )
    return msgspec.json.encode(result)
