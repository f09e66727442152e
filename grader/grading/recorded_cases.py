"""Record the calls that a problem's tests make, so that the tests can be rehearsed at the end."""

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any

import pytest

from grader.course.courses import Course, Problem
from grader.grading.hidden_outcomes import TestFunction
from grader.grading.mistake_matching import Case, explained
from grader.grading.sandboxed_student import RemoteStudent, SandboxedStudent
from grader.grading.verdict import origin
from grader.results.result_records import Outcome
from grader.solutions.known_mistakes import Mistake
from kit.safe_text import one_line
from kit.student import copy_of_generator

# Bytes of answers that are kept until the problem's end. Tests with more cannot be rehearsed.
MOST_BYTES = 64 * 2**20


def arguments_of(item: pytest.Function) -> dict[str, Any]:
    """The arguments of a test function; those of a fixture that failed are missing."""
    return {name: item.funcargs[name] for name in _names(item) if name in item.funcargs}


def _names(item: pytest.Function) -> tuple[str, ...]:
    """The names of a test function's arguments; `inspect.signature` takes ten times as long."""
    code: CodeType = inspect.unwrap(item.function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def repetition(item: pytest.Function, rng: Any) -> Callable[[RemoteStudent], None] | None:
    """A function that runs a test again with another student and the same inputs.

    None if a fixture failed, so that the test has no arguments. `rng` is a copy of the test's
    generator before the test ran; None without a generator.
    """
    arguments = arguments_of(item)
    if len(arguments) < len(_names(item)):
        return None

    def repeat(student: RemoteStudent) -> None:
        again: dict[str, Any] = {"student": student}
        if rng is not None:
            again["rng"] = copy_of_generator(rng)
        item.function(**arguments | {name: again[name] for name in again if name in arguments})

    return repeat


class Cases:
    """The recorded test runs of the problem that is currently being graded."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._cases: list[Case] = []
        self._bytes = 0

    def keep(
        self,
        item: pytest.Function,
        function: TestFunction,
        student: SandboxedStudent,
        rng: Any,
        outcome: Outcome,
        error: BaseException | None,
    ) -> None:
        """Keep one run, unless it was on a CUDA device, which this process must not touch.

        For `rng`, see `repetition`.
        """
        repeat = repetition(item, rng)
        if function.device == "cuda" or repeat is None:
            return
        if self._bytes + student.answered_bytes > MOST_BYTES:
            student.calls.clear()
        else:
            self._bytes += student.answered_bytes
        failure = error if isinstance(error, Exception) else None
        about = outcome.about.split(".")[0]
        self._cases.append(
            Case(
                function,
                student.seed,
                lambda rehearsal: repeat(RemoteStudent(rehearsal)),
                student.calls,
                failure,
                about if about in function.problem.functions else "",
                function.seconds,
            )
        )

    def explained(self, problem: Problem) -> dict[TestFunction, Mistake]:
        """The known mistakes that explain a problem's failures.

        This discards the recorded runs. If the explanation itself breaks, it says so on stderr; the
        report then names no mistake, and no point is lost.
        """
        cases, self._cases, self._bytes = self._cases, [], 0
        try:
            return explained(problem, self._course, cases)
        # A failed explanation must not cost the student the grade.
        except Exception as e:
            _report(problem, e)
            return {}


def _report(problem: Problem, error: Exception) -> None:
    """Say on stderr that an explanation broke; a closed stderr must not cost the grade either."""
    with suppress(OSError):
        print(
            f"grader: a fault of the grader: {problem.id} was not compared with its known mistakes:"
            f" {one_line(origin(error), 300)}; the points are right",
            file=sys.stderr,
        )
