"""The inputs of one grade; all its steps read them, and none changes them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.course import Course, Problem
from grader.sandbox.box import Sandbox

Progress = Callable[[str, int, int], None]  # the problem, tests done, tests in all


@dataclass(frozen=True)
class Job:
    """One grade. The arguments of `grade` document the fields."""

    sources: dict[str, bytes]
    course: Course
    sandbox: Sandbox
    problems: list[Problem]
    device: str
    seed: int
    progress: Progress | None
    explain: bool
    until_one_fails: bool
    fresh: bool
    open_session: Callable[..., Any]

    @property
    def shares_processes(self) -> bool:
        """Whether tests that pass share a process.

        Not on a GPU, whose memory a test measures from the state of its process.
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
