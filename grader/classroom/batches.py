"""Grade all submissions in a gradebook that have no result yet.

An executor grades, on this machine or on others; only this process writes the gradebook. Each
result is stored as soon as it arrives, so a batch that is killed loses only unfinished gradings.
"""

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from grader.base import interrupts
from grader.base.errors import GraderFault, SubmissionRefused, UsageError
from grader.classroom.class_records import HandedIn, Student
from grader.classroom.executor import BatchEvent, Ended, Executor, Noted, Started, Waits
from grader.classroom.gradebook import Gradebook
from grader.course.courses import Course
from grader.report import json_report
from grader.report.shared_wording import duration
from grader.submission.archives import MAX_ARCHIVE_BYTES
from grader.submission.reader import SubmissionReader
from grader.submission.submissions import Submission
from kit.handing_in import MAX_BYTES
from kit.safe_text import one_line

# How often a submission is tried if the grader fails on it.
FAULTS = 2
# How often it is tried if the grading process dies; more often, because its machine may have died.
LOSSES = 3
SHOWN = 20  # the most submissions in what is told about a batch
DEFINES = re.compile(r"^(?:async +def|def|class) +(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Running:
    name: str
    place: str  # the machine that grades it; empty for this one
    started: float  # the time at which it started


@dataclass
class BatchProgress:
    total: int  # the number of submissions to grade
    done: int = 0  # the number of submissions that are finished, including those with a fault
    faults: int = 0  # the number of submissions on which the grader failed
    running: dict[str, Running] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # messages for the person who started the batch
    waits: str = ""  # what the batch waits for before it can go on; empty if it can
    started: float = field(default_factory=time.monotonic)  # when the batch started

    def lines(self) -> list[str]:
        """How many are done and the remaining time, then what runs for longest, and the rest."""
        now, left = time.monotonic(), self.total - self.done
        parts = [f"graded {self.done} of {self.total}"]
        if self.faults:
            parts.append(f"{self.faults} with a fault of the grader")
        parts.append(f"{left} left")
        if left and self.done:
            parts.append(f"about {duration((now - self.started) / self.done * left)} to go")
        runs = sorted(self.running.values(), key=lambda run: run.started)
        lines = [
            f"{one_line(run.name, 60)}  {duration(now - run.started)}"
            + (f" on {one_line(run.place, 40)}" if run.place else "")
            for run in runs[:SHOWN]
        ]
        lines += [f"and {len(runs) - SHOWN} more"] if len(runs) > SHOWN else []
        lines += [self.waits] if self.waits else []
        return [", ".join(parts), *lines]


Show = Callable[[BatchProgress], None]


def add(
    book: Gradebook,
    attempts: Sequence[tuple[Student, HandedIn]],
    advance: Callable[[str, int, int], None],
    course: Course,
) -> int:
    """Read attempts into the gradebook, or why they cannot be graded; return how many are new."""
    new = 0
    with SubmissionReader() as reader:
        for number, (student, handed_in) in enumerate(attempts):
            advance(one_line(handed_in.path.name, 60), number, len(attempts))
            what = _read(reader, handed_in, course)
            new += book.attempts.add(
                student.id,
                one_line(handed_in.path.name, 200),
                what,
                identity=_hash_of(handed_in.path) if isinstance(what, str) else "",
                submitted_at=handed_in.submitted_at,
                late=handed_in.late,
                number=handed_in.number or 0,
            )
    return new


def _read(reader: SubmissionReader, handed_in: HandedIn, course: Course) -> Submission | str:
    if handed_in.doubt:
        return one_line(handed_in.doubt, 500)
    try:
        parts = dict(handed_in.parts) or _as_module(handed_in.path, course)
        return reader.read(handed_in.path, course.accepted, parts=parts, follow=False)
    except SubmissionRefused as e:
        return one_line(str(e).removeprefix(f"{handed_in.path.parent}/"), 500)
    except GraderFault as e:
        return one_line(f"{e}; the student is not to blame: run this command again", 500)


def _as_module(path: Path, course: Course) -> dict[str, Path]:
    """A student's only file as the one module whose functions it defines; empty if unclear."""
    defined: set[str] = set()
    with suppress(OSError):
        if path.suffix == ".py" and path.is_file() and path.stat().st_size <= MAX_BYTES:
            defined.update(DEFINES.findall(path.read_text("utf-8", "replace")))
    fits = {p.path for p in course.problems if defined & {f.split(".")[0] for f in p.functions}}
    return {fits.pop().removeprefix("assignment/"): path} if len(fits) == 1 else {}


def _hash_of(path: Path) -> str:
    """The identity of a refused submission: a hash, or the name and size of what is no archive."""
    try:
        size = path.stat().st_size if path.is_file() else None
        if size is not None and size <= MAX_ARCHIVE_BYTES:
            with path.open("rb") as file:
                return hashlib.sha256(file.read(MAX_ARCHIVE_BYTES)).hexdigest()
    except OSError:
        size = None
    return f"name {path.name}" if size is None else f"name {path.name} of {size} bytes"


class _Queue:
    """The submissions that wait, that are running, and the number of failures of each."""

    def __init__(self, book: Gradebook, setup: int, to_grade: list[str]) -> None:
        self.book, self.setup = book, setup
        self.waiting = list(reversed(to_grade))
        self.faults: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.progress = BatchProgress(len(to_grade))

    def take(self) -> Submission | None:
        """The next submission to grade; None if none is left."""
        while self.waiting:
            sources = self.waiting.pop()
            try:
                return self.book.attempts.submission(sources)
            except UsageError as e:
                self._give_up(sources, str(e))
        return None

    def note(self, event: BatchEvent) -> None:
        """Store a result or queue a submission for another try, and update the progress."""
        match event:
            case Started(submission, place):
                now = Running(submission.name, place, time.monotonic())
                self.progress.running[submission.sha256] = now
            case Noted(text):
                self.progress.notes.append(text)
            case Waits(text):
                self.progress.waits = text
            case Ended():
                self._end(event)

    def _end(self, ended: Ended) -> None:
        sources = ended.submission.sha256
        self.progress.running.pop(sources)
        self.progress.waits = ""
        result, fault = None, ended.fault
        if not fault:
            try:
                result = json_report.parse(ended.result)
                first = next(iter(result.grader_errors), None)
                fault = f"{first[0]}, {first[1].id}: {first[1].said}" if first else ""
            except msgspec.MsgspecError as e:
                fault = f"the result cannot be read: {e}"
        if fault and self._again(sources, lost=ended.lost):
            self.waiting.insert(0, sources)  # last, when what disturbed it may have passed
            return
        if result is not None:
            self.book.results.keep(self.setup, result, fault=fault)
            self.progress.done += 1
            self.progress.faults += bool(fault)
        else:
            self._give_up(sources, fault)

    def _give_up(self, sources: str, fault: str) -> None:
        self.book.results.note_fault(self.setup, sources, one_line(fault, 500))
        self.progress.done += 1
        self.progress.faults += 1

    def _again(self, sources: str, *, lost: bool) -> bool:
        counted, most = (self.losses, LOSSES) if lost else (self.faults, FAULTS)
        counted[sources] += 1
        return counted[sources] < most


def grade(book: Gradebook, setup: int, executor: Executor, show: Show) -> BatchProgress:
    """Grade all submissions without a result for this setup; store each result as it arrives.

    `show` is called several times a second.

    Raises:
        GraderFault: No submission can be graded.
    """
    queue = _Queue(book, setup, book.results.to_grade(setup))
    with closing(executor.run(queue.take)) as events:
        for event in events:
            interrupts.stop_if_seen()
            queue.note(event)
            show(queue.progress)
    book.results.merge_devices()
    return queue.progress
