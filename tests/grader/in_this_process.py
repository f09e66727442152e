"""Commands that run in this process, and gradebooks whose results a test chooses."""

import multiprocessing.spawn
import sys
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial

import msgspec
import pytest

from grader.base.errors import Status
from grader.classroom import batches, gradebook, setups
from grader.classroom.class_records import Student
from grader.classroom.executor import Ended, Started, graded
from grader.commands import class_commands, cli
from grader.course import courses
from grader.grading import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.report import json_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result, submission_result
from grader.results.result_records import GraderInfo, Outcome, SubmissionInfo
from grader.sandbox.levels.bubblewrap import BubblewrapLevel
from grader.submission import submissions
from grader.submission.submissions import Submission
from tests.grader.warm_python import python

DUE = datetime(2026, 10, 2, 12, tzinfo=UTC)
PROBLEM = "adamw"
INFO = GraderInfo(version="1", suite_sha256="cd" * 32, device="cpu", isolation="bubblewrap", seed=0)


class Typed:
    """Runs commands as the user ta types them.

    Attributes:
        err: What all commands so far have written to stderr.
    """

    def __init__(self, monkeypatch, capsys):
        self._patch, self._capsys, self.err = monkeypatch, capsys, ""
        monkeypatch.setenv("LOGNAME", "ta")

    def __call__(self, *words):
        """Run a command; return its exit code, its output and its last sentence."""
        self._patch.setattr(sys, "argv", ["grader", *map(str, words)])
        code, text = cli._run()
        printed = self._capsys.readouterr()
        self.err += printed.err
        assert "Traceback" not in printed.err
        return code, printed.out, text

    def all(self, *words):
        """Run a command; return its exit code and everything that it says."""
        before = len(self.err)
        code, out, text = self(*words)
        return code, out + self.err[before:] + text


@pytest.fixture
def typed(monkeypatch, capsys):
    return Typed(monkeypatch, capsys)


@pytest.fixture
def processes_start_at_once(monkeypatch):
    """Fork the pools' processes from one that has imported torch, instead of importing it again."""
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", python().encode())


class InThisProcess:
    """Grades without a sandbox; takes the place of a `LocalExecutor`."""

    def __init__(self, course, setup, **_):
        self._course, self._setup = course, setup

    def run(self, take):
        with closing(LocalBox()) as box:
            box.isolation = self._setup.isolation
            while submission := take():
                yield Started(submission)
                yield Ended(submission, graded(submission, self._course, box, self._setup))


@pytest.fixture
def reading_here(monkeypatch):
    """Read submissions in this process, and start no box to see whether one would start."""
    monkeypatch.setattr(batches, "SubmissionReader", lambda: nullcontext(submissions))
    monkeypatch.setattr(BubblewrapLevel, "why_not", lambda _: None)


IN_SANDBOXES = pytest.param("processes_start_at_once", marks=pytest.mark.proof)


@pytest.fixture(params=["reading_here", IN_SANDBOXES])
def grading(request, monkeypatch):
    """Grade in this process what tests only use results of; `make proof` does it in sandboxes."""
    request.getfixturevalue(request.param)
    if request.param == "reading_here":
        monkeypatch.setattr(class_commands, "LocalExecutor", InThisProcess)
        monkeypatch.setattr(grade, "grade", partial(grade.grade, session=LocalSession))


@pytest.fixture(scope="session")
def today():
    """The setup of a run of one problem that starts now."""
    course = courses.load()
    problems = [course.problem(PROBLEM)]
    return setups.of_today(course, problems, device="cpu", isolation="bubblewrap", seed=0)


@pytest.fixture
def begun(tmp_path, today):
    """A gradebook in which results of today's setup, whose number is 1, count."""
    with new_book(tmp_path / "class.sqlite", today) as book:
        return book.path


@contextmanager
def new_book(path, setup):
    """A new gradebook in which results of this setup, whose number is 1, count."""
    with gradebook.writing(path, create=True) as book:
        book.setups.apply(book.setups.number_of(setup), why="batch")
        yield book


def older(today):
    return msgspec.structs.replace(today, suite_sha256="00" * 32)


def of(text, name="zoe"):
    return Submission(name, {"assignment/adamw.py": text.encode()}, [])


def result_of(submission, status=Status.PASSED):
    """A result for one problem with one test, worth 7 points."""
    what = "" if status == "passed" else "x"
    ended = Outcome(id="test_steps", status=status, weight=1, what=what)
    problem = problem_result(PROBLEM, PROBLEM, 7, [ended])
    return submission_result(submission.info, INFO, [problem], seconds=1.0)


def hand_in(book, student, text, at=DUE, **statuses):
    """Add an attempt; `statuses` gives its outcome per setup, as in `setup_1=Status.PASSED`."""
    submission = of(text, student)
    book.students.enrol([Student(id=student, section="A")])
    book.attempts.add(student, f"{student}.zip", submission, submitted_at=at)
    for name, status in statuses.items():
        fault = "the machine failed" if status is Status.GRADER_ERROR else ""
        setup = int(name.removeprefix("setup_"))
        book.results.keep(setup, result_of(submission, status), fault=fault)


def result_on(device, submission, *, status=Status.PASSED, seed=0, what=""):
    """A result: `linear` has a test for each device, `tensor_memory` one for a CPU."""

    def ended(test, on):
        if on != device:
            return Outcome(id=test, device=on, weight=1, status=Status.DEFERRED, what="waits")
        return Outcome(id=test, device=on, weight=1, status=status, what=what)

    both = [ended("test_a", "cpu"), ended("cuda/test_b", "cuda")]
    problems = [
        problem_result("linear", "linear", 6, both),
        problem_result("tensor_memory", "tensor_memory", 4, [ended("test_c", "cpu")]),
    ]
    info = msgspec.structs.replace(INFO, device=device, seed=seed)
    return submission_result(submission, info, problems, seconds=1.5)


def run_on(device, file, **how):
    """Write a result; see `result_on`."""
    submission = SubmissionInfo(name="ada", sha256="ab" * 32, files=[], ignored=[])
    file.write_text(json_report.render(Reported(result_on(device, submission, **how))))
    return file
