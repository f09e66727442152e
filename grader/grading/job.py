"""The inputs of one call of `grade`, which all its steps read and none of them changes.

Among them are the host of the student's code and the calls to that code. `Sandbox` with `Session`
isolates the code; `LocalBox` with `LocalSession` runs our own code in this process.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from grader.course.courses import Course, Limits, Problem
from grader.results.records import Ignored
from grader.sandbox.gpu_readings import Readings
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import Isolation
from grader.sandbox.meter import Budget, Patience
from grader.sandbox.replies import Probe
from grader.wire import shortcuts


class Host(Protocol):
    """Where the student's code runs.

    Attributes:
        gpu_works: Whether the GPU was found to work, and no test has run since.
    """

    gpu_works: bool

    @property
    def isolation(self) -> Isolation:
        """The level of isolation."""

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that tests may use."""

    @property
    def readings(self) -> Readings | None:
        """What the driver reports about the GPU while tests run; None without a GPU."""

    @property
    def facts(self) -> dict[str, Any]:
        """The versions of Python and torch, and the `environment` of a GPU.

        Raises:
            GraderFault: The host cannot be used.
        """

    def require_free_gpu(self) -> None:
        """Wait until the GPU has released what all tests so far have taken.

        Raises:
            GraderFault: It does not.
        """

    def renew(self) -> None:
        """Have nothing show what earlier tests did."""

    def turn(self, say: Callable[[str], None], /) -> AbstractContextManager[None]:
        """Have the GPU alone, if there is one; wait for it first."""


class Answers(Protocol):
    """Answers the calls of a test."""

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs.

        Raises:
            StudentFault: The call ended without a value.
            GraderFault: The host failed.
        """


class Calls(Answers, Protocol):
    """The calls of one test, or of several tests in a row; `Session` documents each method."""

    @property
    def is_shared(self) -> bool:
        """Whether the running test uses a process that an earlier test has used."""

    @property
    def answered_bytes(self) -> int:
        """How much memory the answers of the running test take."""

    def forget_answers(self) -> None:
        """Allow further answers as much memory again."""

    def begin_problem(self, budget: Budget | None) -> None:
        """Charge all further tests to this budget."""

    def begin_test(self, seed: int) -> None:
        """Begin another test."""

    def begin_again(self) -> None:
        """Restart the running test in a process of its own."""

    def inspect(self, rules: dict[str, list[dict[str, Any]]]) -> Any:
        """Parse each source without running it."""

    def compile(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Compile sources without running them."""

    def look_at_device(self, name: str) -> Any:
        """Check that a device works."""

    def close(self) -> None:
        """End the process, if there is one."""


class Opens(Protocol):
    """Opens the calls to some sources; `Session` documents the arguments."""

    def __call__(
        self,
        host: Any,  # a Sandbox for `Session`, a LocalBox for `LocalSession`
        sources: dict[str, bytes],
        limits: Limits,
        /,
        *,
        compiled: Mapping[str, bytes] | None = None,
        forbidden: Sequence[str] = (),
        by_hand: Sequence[str] = (),
        budget: Budget | None = None,
        patience: Patience | None = None,
    ) -> Calls:
        """Open them."""


Progress = Callable[[str, int, int], None]  # the problem, tests done, tests in all


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
        return not self.fresh and self.device == "cpu" and not shortcuts.is_off("sharing")

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
