"""Which known mistake a problem's failures look like: its tests are rehearsed on each wrong solution of ours.

A test asks the student's code for a series of answers until one of them is wrong. A wrong solution explains that failure if it
gives the same answers to the same questions and fails with the same words. A mistake is named if one wrong solution, and no
other, explains everything that was seen of a function: each of its failures is explained, and each test that passed passes with
the mistake as well. The rehearsal runs in the trusted process, on solutions of ours. It neither runs nor trusts the student's.
"""

import os
import random
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grader.course import Course, Problem
from grader.errors import Raised, StudentFault
from grader.grading import local_student
from grader.grading.same_answers import elements, has_numbers, same
from grader.solutions import mistakes
from grader.solutions.mistakes import Mistake

MAX_ELEMENTS = 5_000_000  # of one test's calls: larger answers are not compared

Probe = Callable[..., Any]
Package = types.SimpleNamespace  # what a probe takes for the student's package


@dataclass(frozen=True)
class Call:
    """One call that a test made of the student's code, and how it ended: a value, or the name of an exception."""

    probe: Probe
    inputs: dict[str, Any]
    value: Any = None
    raised: str | None = None


@dataclass(eq=False)
class Case:
    """One run of one test.

    Attributes:
        test: What the test is called by whoever asks.
        seed: What the student's global generators were set to before each call.
        repeat: Runs the test again, with something else in the student's place.
        calls: What it asked, and how that ended.
        failure: How it failed; None where it passed.
        function: The function that failed, where that is known.
        seconds: How long it took: quick ones are rehearsed first.
    """

    test: Any
    seed: int
    repeat: Callable[[Any], None]
    calls: list[Call] = field(default_factory=list)
    failure: Exception | None = None
    function: str = ""
    seconds: float = 0.0

    @property
    def can_be_repeated(self) -> bool:
        """Whether this process can do what it asked for."""
        return bool(self.calls) and not any(call.probe in _need_a_process for call in self.calls)

    @property
    def can_be_rehearsed(self) -> bool:
        """Whether its answers can be compared as well: not where they are too large to be looked at again and again."""
        return (
            self.can_be_repeated
            and elements([[call.inputs, call.value] for call in self.calls]) <= MAX_ELEMENTS
        )

    @property
    def tells(self) -> bool:
        """Whether its last answer is informative. An exception, None or a bool only shows that something is missing."""
        return (
            self.can_be_rehearsed
            and self.calls[-1].raised is None
            and has_numbers(self.calls[-1].value)
        )


class _Other(BaseException):
    """The wrong solution answers otherwise, so it does not explain this."""


class _NeedsAProcess(_Other):
    """The probe wants a process of its own, which this one cannot give it."""


_need_a_process: set[Probe] = set()  # probes of which that is known


class Rehearsal:
    """Answers a test's calls with a wrong solution, and only for as long as it answers as the student did.

    Args:
        package: The wrong solution.
        case: What the test asked the student's code; None to answer whatever is asked.
        seed: What the global generators are set to before each call.
    """

    def __init__(self, package: Package, case: Case | None, seed: int) -> None:
        self._package, self._seed = package, seed
        self._left = list(case.calls) if case else None

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """What the probe returns, or raises, on the wrong solution; or the end of the rehearsal."""
        asked = self._next(probe, inputs)
        try:
            value = local_student.answer(self._package, probe, inputs, self._seed)
        except _NeedsAProcess:
            _need_a_process.add(probe)
            raise
        except StudentFault as e:
            if asked and name_of(e) != asked.raised:
                raise _Other from None
            raise
        if asked and (asked.raised or not same(value, asked.value)):
            raise _Other
        return value

    def _next(self, probe: Probe, inputs: dict[str, Any]) -> Call | None:
        """The call that the student's code was asked at this place."""
        if self._left is None:
            return None
        if not self._left:
            raise _Other
        asked = self._left.pop(0)
        if probe is not asked.probe or not same(inputs, asked.inputs):
            raise _Other
        return asked


def name_of(fault: Exception) -> str:
    """The name of the exception that student's code ended with."""
    return str(getattr(fault, "type_name", type(fault).__name__))


def explained(problem: Problem, course: Course, cases: list[Case]) -> dict[Any, Mistake]:
    """For each failed test the one known mistake that explains it and all else that was seen of the function.

    Args:
        problem: The problem.
        course: Whose known mistakes.
        cases: Every run of its tests, those that passed among them.
    """
    cases = sorted(cases, key=lambda case: case.seconds)
    telling = [case for case in cases if case.failure is not None and case.tells]
    if not telling:
        return {}
    failed = [
        *telling,
        *(case for case in cases if case.failure is not None and case not in telling),
    ]
    passed = [case for case in cases if case.failure is None and case.can_be_rehearsed]
    reference, solutions = course.reference_of(problem), wrong_solutions(course, problem)
    found: dict[Any, Mistake] = {}
    with _undisturbed():
        for function in {
            case.function: None
            for case in cases
            if case in failed and case.function in problem.functions
        }:
            # What failed for an unknown reason may be this function's as well.
            of_function = [case for case in failed if case.function in (function, "")]
            if of_function[0] not in telling:
                continue
            reaching = [
                (mistake, package)
                for mistake, package in solutions
                if _reaches(mistake, function, reference)
            ]
            agreeing = [
                mistake for mistake, package in reaching if _explains(package, of_function, passed)
            ]
            if len(agreeing) == 1:
                found |= {case.test: agreeing[0] for case in of_function}
    return found


def _explains(package: Package, failed: list[Case], passed: list[Case]) -> bool:
    """Whether a wrong solution fails as was seen, and passes what passed."""
    return all(_fails_alike(package, case) for case in failed) and all(
        _passes(package, case) for case in passed
    )


def _fails_alike(package: Package, case: Case) -> bool:
    """Whether it fails a test with the same words and, where these can be compared, by the same answers."""
    assert case.failure is not None
    if not case.can_be_repeated:
        return False
    try:
        case.repeat(Rehearsal(package, case if case.can_be_rehearsed else None, case.seed))
    except _Other:
        return False
    except Exception as e:
        if isinstance(e, Raised):
            return isinstance(case.failure, Raised) and name_of(e) == name_of(case.failure)
        return type(e) is type(case.failure) and str(e) == str(case.failure)
    return False


def _passes(package: Package, case: Case) -> bool:
    """Whether it passes a test, by whatever answers; a test that needs a process shows nothing."""
    if not case.can_be_repeated:
        return True
    try:
        case.repeat(Rehearsal(package, None, case.seed))
    except _NeedsAProcess:
        return True
    except Exception:
        return False
    return True


@cache
def _reaches(mistake: Mistake, function: str, reference: str) -> bool:
    return mistake.reaches([function], reference)


def wrong_solutions(course: Course, problem: Problem) -> list[tuple[Mistake, Package]]:
    """Each wrong solution of a problem that a CPU can show, as what a probe takes for the student's package."""
    return _loaded(course.mistakes, problem.id, problem.module, course.reference_of(problem))


@cache
def _loaded(
    folder: Path, problem_id: str, module: str, reference: str
) -> list[tuple[Mistake, Package]]:
    found = []
    for mistake in mistakes.load(folder, problem_id):
        if not mistake.is_tried_on("cpu", ("cpu",)):
            continue
        loaded = types.ModuleType(f"grader_wrong_{problem_id}_{mistake.name}")
        sys.modules[loaded.__name__] = loaded  # dataclasses look their module up
        source = mistake.applied_to(reference)
        exec(compile(source, f"<{problem_id}/{mistake.name}>", "exec"), loaded.__dict__)
        found.append((mistake, Package(**{module: loaded})))
    return found


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Generators, working folder and settings as they were afterwards; nothing may fork, because torch may have threads."""

    def no_process(*arguments: Any) -> Any:
        raise _NeedsAProcess

    states = (
        random.getstate(),
        np.random.get_state(),
        torch.get_rng_state(),
        torch.get_default_dtype(),
    )
    folder, grad = os.getcwd(), torch.is_grad_enabled()
    of_processes = {name: getattr(os, name) for name in ("fork", "kill", "_exit")}
    for name in of_processes:
        setattr(os, name, no_process)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            try:
                yield
            finally:
                os.chdir(folder)
    finally:
        for name, function in of_processes.items():
            setattr(os, name, function)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        torch.set_default_dtype(states[3])
        torch.set_grad_enabled(grad)
