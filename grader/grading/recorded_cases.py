"""What the tests of a problem asked of the student's code, kept until all are done and can be rehearsed together."""

from typing import Any

import pytest
import torch

from grader.course import Course, Problem
from grader.grading.mistake_matching import Case, explained
from grader.grading.outcomes import Entry
from grader.grading.sandboxed_student import RemoteStudent
from grader.grading.verdict import Verdict
from grader.solutions.mistakes import Mistake


class Cases:
    """The runs of the tests of the problem that is being graded."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._cases: list[Case] = []

    def keep(
        self,
        item: pytest.Function,
        entry: Entry,
        student: RemoteStudent,
        rng_state: torch.Tensor | None,
        verdict: Verdict,
        error: BaseException | None,
    ) -> None:
        """Keep one run, unless it was on a CUDA device: this process touches none.

        Args:
            item: The test.
            entry: What is known of the test so far.
            student: Whom it asked.
            rng_state: Of its generator, before it ran; None where it has none.
            verdict: How it ended.
            error: What it raised.
        """
        names = item._fixtureinfo.argnames
        if entry.device == "cuda" or not item.funcargs.keys() >= set(names):
            return  # also where one of its fixtures failed
        arguments = {name: item.funcargs[name] for name in names}

        def repeat(rehearsal: Any) -> None:
            again: dict[str, Any] = {"student": RemoteStudent(rehearsal)}
            if rng_state is not None:
                again["rng"] = torch.Generator().set_state(rng_state)
            item.function(
                **{**arguments, **{name: again[name] for name in again if name in arguments}}
            )

        failure = error if isinstance(error, Exception) else None
        function = verdict.function if verdict.function in entry.problem.functions else ""
        self._cases.append(
            Case(entry, student.seed, repeat, student.calls, failure, function, entry.seconds)
        )

    def explained(self, problem: Problem) -> dict[Entry, Mistake]:
        """The known mistakes that the failures of a problem look like; its runs are forgotten."""
        cases, self._cases = self._cases, []
        try:
            return explained(problem, self._course, cases)
        except Exception:  # a word of help is not worth a grade; a test holds that every wrong solution can be loaded
            return {}
