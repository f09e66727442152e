"""The inputs of one call of `grade`, which all its steps read and none of them changes.

Among them are the host of the student's code and the calls to that code. `Sandbox` with `Session`
isolates the code; `LocalBox` with `LocalSession` runs our own code in this process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from grader.course.courses import Course, Limits, Problem
from grader.grading.local_student import LocalBox, LocalSession
from grader.results.result_records import Ignored
from grader.sandbox.reply_checks import Probe
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session

# Where the student's code runs, and the calls to it: in a sandbox or, for our own, in this process.
Host = Sandbox | LocalBox
Calls = Session | LocalSession
Opens = Callable[..., Calls]  # with the arguments of `Session`
Progress = Callable[[str, int, int], None]  # the problem, tests done, tests in all


class Answers(Protocol):
    """Answers the calls of a test."""

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs.

        Raises:
            StudentFault: The call ended without a value.
            GraderFault: The host failed.
        """


@dataclass(frozen=True)
class Job:
    """The inputs of one call of `grade`, whose arguments document the fields."""

    sources: dict[str, bytes]
    course: Course
    sandbox: Host
    problems: list[Problem]
    device: str
    seed: int
    progress: Progress | None
    explain: bool
    until_one_fails: bool
    fresh: bool
    open_session: Opens
    ignored: Sequence[Ignored] = ()

    def first_session(self, sources: dict[str, bytes]) -> Calls:
        """A session for what comes before the tests.

        Its process has the largest limits of all problems, so that it already meets a limit of
        this machine that is too low for one of the tests.
        """
        each = [self.course.limits, *map(self.course.limits_of, self.problems)]
        fields = [msgspec.structs.asdict(limits) for limits in each]
        largest = Limits(**{name: max(limits[name] for limits in fields) for name in fields[0]})
        return self.open_session(self.sandbox, sources, largest)

    @property
    def shares_processes(self) -> bool:
        """Whether tests share a process; see sandboxed_student.py.

        On a GPU they do not, because the GPU memory that a test measures depends on the state of
        its process.
        """
        return not self.fresh and self.device == "cpu"

    @property
    def here(self) -> list[Problem]:
        """The problems that have tests for the device."""
        return [
            problem for problem in self.problems if self.device in self.course.hidden_tests(problem)
        ]

    @property
    def files(self) -> list[str]:
        """The files of the problems' hidden tests, for all devices."""
        return [
            str(path)
            for problem in self.problems
            for path in self.course.hidden_tests(problem).values()
        ]
