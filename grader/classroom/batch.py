"""Grade everything in a gradebook that has no result yet, on all processors.

One process writes the gradebook. Each worker has one warm sandbox and grades one submission at a
time; what it sends back is the result's JSON. A result is stored as soon as it is there, so a call
that is killed loses only what was running.
"""

import hashlib
import time
from collections import Counter
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
from grader.course import Course
from grader.errors import GraderFault, SandboxUnavailable, SubmissionRefused
from grader.grading.workers import Workers, own
from grader.printable import one_line
from grader.report import json as json_report
from grader.results.records import SubmissionResult
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

    def __init__(self, book: Gradebook, setup: int, to_grade: list[str], *, fresh: bool) -> None:
        self.book, self.setup, self.fresh = book, setup, fresh
        self.of_all = book.setup(setup)
        self.waiting = list(reversed(to_grade))
        self.suspects: list[str] = []  # what ran when a process was killed
        self.tries: Counter[str] = Counter()
        self.running: dict[Future[bytes], tuple[str, str]] = {}
        self.progress = Progress(len(to_grade))

    def start(self, workers: Workers, sources: str) -> None:
        """Give a submission to a process that is free."""
        submission, of_all = self.book.submission(sources), self.of_all
        future = workers.submit(
            _graded, submission, of_all.problems, of_all.device, of_all.seed, self.fresh
        )
        self.tries[sources] += 1
        self.running[future] = sources, submission.name
        self.progress.running[submission.name] = time.monotonic()

    def finish(self, future: "Future[bytes]") -> None:
        """Store what a process found, or put its submission back to be tried again."""
        sources, name = self.running.pop(future)
        self.progress.running.pop(name, None)
        result, again = None, self.waiting
        try:
            result = json_report.parse(future.result())
            fault = _fault_in(result)
        except BrokenProcessPool:
            fault, again = "the process that graded it was killed", self.suspects
        except SandboxUnavailable:
            raise  # no submission can be graded on this machine
        except GraderFault as e:
            fault = str(e)
        except Exception as e:  # one submission never stops the others
            fault = f"{type(e).__name__}: {e}"
        if fault and self.tries[sources] < TRIES:
            again.append(sources)
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
    *,
    jobs: int,
    gpu: Gpu | None = None,
    fresh: bool = False,
    limit: int | None = None,
    show: Show,
) -> Progress:
    """Grade what has no result of a setup yet, and store each result when it is there.

    Args:
        course: The course.
        book: The gradebook, open for writing.
        setup: The number of the setup in the gradebook; it says what is graded, and how.
        jobs: The number of processes.
        gpu: The GPU that submissions get.
        fresh: Whether each test has a process of its own.
        limit: The most submissions to grade; all by default.
        show: Called several times a second.
    """
    queue = _Queue(book, setup, book.to_grade(setup)[:limit], fresh=fresh)
    while queue.suspects or queue.waiting:
        # A suspect runs alone, so that it takes no other along.
        left, at_once = (queue.suspects, 1) if queue.suspects else (queue.waiting, jobs)
        at_once = min(at_once, len(left))
        with Workers(course, at_once, gpu=gpu, isolation=queue.of_all.isolation) as workers:
            try:
                _work(queue, workers, left, at_once, show)
            except BrokenProcessPool:
                # One process was killed, and took the pool along: start another pool.
                for future in list(queue.running):
                    queue.finish(future)
    book.merge_devices()
    return queue.progress


def _work(queue: _Queue, workers: Workers, left: list[str], at_once: int, show: Show) -> None:
    """Keep the processes busy until nothing of a list is left.

    Raises:
        BrokenProcessPool: A process was killed.
    """
    while left or queue.running:
        interrupts.stop_if_seen()
        while left and len(queue.running) < at_once:
            queue.start(workers, left[-1])
            left.pop()
        done = wait(queue.running, timeout=TICK_SECONDS, return_when=FIRST_COMPLETED).done
        for future in done:
            broken = isinstance(future.exception(), BrokenProcessPool)
            queue.finish(future)
            if broken:
                raise BrokenProcessPool
        show(queue.progress)


def _fault_in(result: SubmissionResult) -> str:
    """The first fault of the grader in a result, in one line; empty if there is none."""
    for problem, test in result.grader_errors:
        return f"{problem}, {test.id}: {test.said}"
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
