"""The answers that tests get are kept until the end of their problem, up to a limit."""

import os
import re
import shutil
import subprocess
import sys
import types

import pytest

from grader.course import courses
from grader.grading import recorded_cases
from grader.grading.mistake_matching import Call
from grader.grading.outcomes import TestFunction
from grader.grading.recorded_cases import Cases
from grader.results.records import Outcome
from tests.grader import test_attacks

COURSE = courses.load()
MIB = 2**20


@pytest.fixture
def kept(monkeypatch):
    """The number of calls of each case that is explained."""
    found = []

    def explained(problem, course, cases):
        found.append([len(case.calls) for case in cases])
        return {}

    monkeypatch.setattr(recorded_cases, "explained", explained)
    return found


def test_large_answers_are_not_kept(kept):
    """A test whose answers do not fit keeps no calls; the next problem has all the room again."""
    problem, cases = COURSE.problem("linear"), Cases(COURSE)
    item = types.SimpleNamespace(
        _fixtureinfo=types.SimpleNamespace(argnames=()), funcargs={}, function=lambda: None
    )
    for _ in range(2):
        for mib in (40, 30, 24, 1):
            student = types.SimpleNamespace(
                seed=0, calls=[Call(kept, {}, 8)], answered_bytes=mib * MIB
            )
            function = TestFunction(problem, "test_one", "cpu", 1)
            cases.keep(item, function, student, None, Outcome(status="passed"), None)
        cases.explained(problem)
    assert kept == [[1, 0, 1, 0], [1, 0, 1, 0]]


def test_an_explanation_that_breaks_is_reported(monkeypatch, capsys):
    """The warning says what broke and where, in one line; the grade goes on without it."""

    def broken(problem, course, cases):
        raise KeyError("no\nsuch \x1b[31mname")

    monkeypatch.setattr(recorded_cases, "explained", broken)
    assert {} == Cases(COURSE).explained(COURSE.problem("linear"))
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"grader: a fault of the grader: linear was not compared with its known mistakes: "
        r"KeyError: 'no\\nsuch \\x1b\[31mname' \(test_recorded_cases.py:\d+\); "
        r"the points are right",
        line,
    )


@pytest.mark.slow
def test_answers_are_gone_after_their_test(root, tmp_path):
    """A submission with 300 MiB in every answer does not fill the memory of the grader.

    A failed test leaves circles of objects that hold its answers, which only the garbage collector
    finds.
    """
    (tmp_path / "assignment").mkdir()
    for path in COURSE.reference.glob("[!_]*.py"):
        shutil.copy(path, tmp_path / "assignment")
    (attack,) = (a for a in test_attacks.ALL if a.name == "unused_bytes_in_every_answer")
    with (tmp_path / "assignment" / "einops_reshaping.py").open("a") as module:
        module.write(f"\n\n{attack.made}")
    command = [sys.executable, "-m", "grader", "grade", tmp_path, "--only", "einops"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    with process.stdout as pipe:
        report = pipe.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert re.search(r" 0/\d+  crashed", report)
    assert used.ru_maxrss * 1024 < 1500 * MIB
