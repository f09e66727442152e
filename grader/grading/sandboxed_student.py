"""The `student` of a hidden test: like the imported package, but its calls run in the sandbox.

The tests of a problem run one after the other in one process as long as they pass, or call a stub,
which `static_checks` knows. A test that ends there in any other way is repeated in a process of its
own, and only the repetition counts. So a test that passes does not need a process of its own, and
what one test leaves behind cannot make the next test fail. If a repetition passes, `pytest_plugin`
runs all tests of the problem that have not failed again, each in a process of its own: otherwise,
code that can tell a used process from a new one could try two answers. A time-out is no answer.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from grader.course.courses import SPARE_SHARE, Course, Limits, Problem
from grader.grading.grading_job import Answers, Calls, Job
from grader.grading.mistake_matching import Call, name_of
from grader.sandbox.reply_checks import Probe
from grader.sandbox.time_budgets import Budget, Patience, Spare
from kit.student import call

# Extra seconds per test for CUDA start-up, not charged to the student.
STARTING_SECONDS = {"cpu": 0, "cuda": 20}


class Budgets:
    """Each problem's share of the submission's time, in proportion to its points.

    So endless loops in one problem take no time from the others. The share does not depend on which
    problems are graded. The ratio of wall time to CPU time is the same for all tests as for one.

    Every attempt at a test is charged, in the same budget however often the test runs. A right
    submission loses no point if a test is repeated for a reason that is not its own, such as a
    limit that the tests before it had almost used up: time that is set aside pays for attempts that
    do not count (`Spare`). It is a tenth of the submission's time, so tests that wait and are then
    repeated keep the grader waiting for a tenth longer at most. If that is not enough, the tests
    were repeated because of what the submission does (its time depends on earlier tests, or it
    gives two answers), and its problems pay.
    """

    def __init__(self, course: Course, device: str) -> None:
        self._course, self._device = course, device
        self._points = sum(p.points for p in course.problems if device in course.hidden_tests(p))
        self._budgets: dict[str, Budget] = {}
        spare = SPARE_SHARE * course.limits.submission_seconds
        self._spare = Spare(spare, self._wall(spare))
        self.patience = Patience()  # how long a test of the submission may do nothing

    def _wall(self, seconds: float) -> float:
        """The wall time that goes with this CPU time."""
        return seconds * self._course.limits.wall_seconds / self._course.limits.cpu_seconds

    def of(self, problem: Problem) -> Budget:
        """A problem's share, with what its tests have used so far."""
        if problem.id not in self._budgets:
            seconds = self._course.limits.submission_seconds * problem.points / self._points
            self._budgets[problem.id] = Budget(
                seconds,
                self._wall(seconds),
                free_seconds=STARTING_SECONDS[self._device],
                spare=self._spare,
            )
        return self._budgets[problem.id]


class RemoteStudent:
    """A student whose calls run in a session. Each call is recorded with its outcome."""

    def __init__(self, session: Answers, seed: int = 0) -> None:
        self._session = session
        self.seed = seed  # of the student's global generators, before each call
        # The function that the test last called by name, which a message starts with.
        self.asked_for = ""
        self.calls: list[Call] = []  # the calls so far

    def run(self, probe: Probe, **inputs: Any) -> Any:
        """Run `probe` next to the student's code and return what it returns for these inputs."""
        return self.ask("", probe, inputs)

    def ask(self, function: str, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Do the same as `run`, and record the name of the function that the test called."""
        self.asked_for = function
        try:
            value = self._session.run(probe, inputs)
        except Exception as e:
            self.calls.append(Call(probe, inputs, raised=name_of(e)))
            raise
        self.calls.append(Call(probe, inputs, value))
        return value

    def __getattr__(self, module: str) -> "RemoteModule":
        if module.startswith("_"):
            raise AttributeError(module)
        return RemoteModule(self, module)


class SandboxedStudent(RemoteStudent):
    """The student of one test of a grade; its calls are charged to a budget."""

    def __init__(self, session: Calls, seed: int) -> None:
        super().__init__(session, seed)
        self._charged = session

    @property
    def answered_bytes(self) -> int:
        """How much memory the answers of the calls take."""
        return self._charged.answered_bytes

    @property
    def is_shared(self) -> bool:
        """Whether an earlier test has used the same process."""
        return self._charged.is_shared

    def begin_again(self) -> None:
        """Forget all calls, and answer further calls in a process of its own."""
        self.asked_for = ""
        self.calls.clear()
        self._charged.begin_again()


@dataclass(frozen=True)
class RemoteModule:
    """A module of the student, a package inside, or a function in one.

    A function takes and returns plain data.
    """

    _student: RemoteStudent
    _name: str

    def __getattr__(self, name: str) -> "RemoteModule":
        if name.startswith("_"):
            raise AttributeError(name)
        return RemoteModule(self._student, f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as a function."""
        module, _, function = self._name.rpartition(".")
        inputs = {"module": module, "function": function, "args": args, "kwargs": kwargs}
        return self._student.ask(function, call, inputs)


class Students:
    """Makes a student for each test of a grade.

    Each student gets the limits and the remaining time of its problem, and a seed. Tests share a
    process; see above.
    """

    def __init__(self, job: Job, budgets: Budgets) -> None:
        self._job, self._budgets = job, budgets
        self._session: Calls | None = None  # of the test that is running
        self._problem: Problem | None = None  # the problem of that test

    def for_test(self, problem: Problem, name: str) -> SandboxedStudent:
        """A student for one test; a process starts at its first call if none is left to share."""
        seeded = f"{self._job.seed}:{name}:student".encode()
        seed = int.from_bytes(hashlib.sha256(seeded).digest()[:7], "big")
        if problem is not self._problem:
            self.end()
        self._problem = problem
        if self._session is None:
            self._session = self._job.open_session(
                self._job.sandbox,
                self._job.sources,
                self._limits(problem),
                forbidden=problem.forbidden,
                by_hand=problem.by_hand,
                budget=self._budgets.of(problem),
                patience=self._budgets.patience,
            )
        self._session.begin_test(seed)
        return SandboxedStudent(self._session, seed)

    def end(self) -> None:
        """End the process, so that the next test begins in another one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _limits(self, problem: Problem) -> Limits:
        """The limits of each process, with the time that a GPU's start-up takes."""
        starting = STARTING_SECONDS[self._job.device]
        usual = self._job.course.limits_of(problem)
        return msgspec.structs.replace(
            usual,
            wall_seconds=usual.wall_seconds + starting,
            cpu_seconds=usual.cpu_seconds + starting,
        )
