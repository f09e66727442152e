"""Grade one submission: run the hidden tests in this process, with `student` bound to the sandbox, and add up what they say.

No student's code, and no bytes of theirs that are not plain data, ever get into this process. A test passes when its own code
says so; it fails when `expect` raises a Mismatch or a call ends in a StudentFault; anything else that it raises is our fault.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import torch._dynamo  # torch.optim, as an oracle, would import it during a test, for seconds

from grader import __version__, inspection, misconceptions
from grader.course import Course, Limits, Problem, device_of, id_of_test
from grader.errors import GraderFault, Status
from grader.fragments import Fragment
from grader.misconceptions import Call, Case
from grader.results import SUITE, GraderInfo, Outcome, SubmissionResult, problem_result, submission_result, worst
from grader.sandbox.box import Sandbox
from grader.sandbox.client import Budget, Probe, Session
from grader.sandbox.preflight import check_cpu, check_device
from grader.submission import Submission
from grader.text import printable
from grader.verdict import MAX_MESSAGE, Verdict, verdict_on

Progress = Callable[[str, int, int], None]  # the problem, tests done, tests in all
STARTING_SECONDS = {"cpu": 0, "cuda": 20}  # of each test, that starting CUDA may take: no student's time
NEEDS = {"cpu": "runs on a CPU", "cuda": "needs a CUDA device"}  # what is said of a test that was deferred
INNOCENT = {Status.PASSED, Status.NOT_ATTEMPTED, Status.POLICY, Status.GRADER_ERROR}  # of which a broken GPU is no reason


def grade(
    submission: Submission,
    course: Course,
    sandbox: Sandbox,
    *,
    problems: Iterable[Problem] | None = None,
    device: str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
    explain: bool = True,
    until_one_fails: bool = False,
    session: Callable[..., Any] = Session,
) -> SubmissionResult:
    """Grade a submission.

    Args:
        submission: What was handed in.
        course: What it is graded by.
        sandbox: Where its code runs; nothing of it is left there afterwards.
        problems: Which problems; all by default.
        device: "cpu" or "cuda". Tests that need the other one are deferred, whatever else is true of their module.
        seed: The tests' inputs follow from it: the same seed gives the same result.
        progress: Called after each test.
        explain: Compare wrong answers with those of known mistakes.
        until_one_fails: Stop there; the tests after it are left out of the result, whose scores then mean nothing.
        session: What makes one test's way to the submission's code: through the sandbox, or for code of ours `LocalSession`.

    Returns:
        The result; faults of the grader are in it as `grader_error`.

    Raises:
        GraderFault: No test can run here, whatever the submission.
    """
    started = time.monotonic()
    chosen = list(course.problems if problems is None else problems)
    if session is Session and chosen:
        check_cpu(sandbox, _largest(course, chosen))
    environment = _environment(sandbox, device)
    run = _Run(submission, course, sandbox, chosen, device, seed, progress)
    run.explain, run.until_one_fails, run.open_session = explain, until_one_fails, session
    with _tests_of(course):
        outcomes = run.outcomes()
    info = GraderInfo(
        version=__version__,
        suite_sha256=course.suite_sha256(),
        device=device,
        isolation=sandbox.isolation,
        seed=seed,
        environment=environment,
    )
    results = [problem_result(p.id, p.module, p.points, outcomes[p.id], p.device) for p in chosen]
    return submission_result(submission.info, info, results, seconds=time.monotonic() - started)


def _largest(course: Course, problems: list[Problem]) -> Limits:
    """The largest of each limit that a test of these problems has."""
    each = [msgspec.structs.asdict(course.limits_of(problem)) for problem in problems]
    return Limits(**{name: max(limits[name] for limits in each) for name in each[0]})


def _environment(sandbox: Sandbox, device: str) -> dict[str, str]:
    """What the tests run in, as the worker said before it saw a submission; nothing where there is no worker."""
    try:
        facts = sandbox.facts
    except GraderFault:
        return {}
    versions = {name: facts[name] for name in ("python", "torch")}
    of_device = facts.get("environment", {}) if device == "cuda" else {}
    return {name: printable(str(value), 200) for name, value in {**versions, **of_device}.items()}


@contextmanager
def _tests_of(course: Course) -> Iterator[None]:
    """Have `tests` mean this course's package, also where this process has imported another course's of that name."""
    loaded = getattr(sys.modules.get("tests"), "__file__", None)
    if loaded is None or Path(loaded).parent.resolve() == course.tests.resolve():
        yield
        return
    others = _modules_of_tests()
    try:
        yield
    finally:
        _modules_of_tests()
        sys.modules.update(others)


def _modules_of_tests() -> dict[str, ModuleType]:
    """The modules of whichever `tests` is imported, taken out of Python's list."""
    names = [name for name in sys.modules if name == "tests" or name.startswith("tests.")]
    return {name: sys.modules.pop(name) for name in names}


class RemoteStudent:
    """What `student` is in a hidden test: the same two ways in as the imported package, into the sandbox."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.asked_for = ""  # the last function called by its name, for the head of a message
        self.calls: list[Call] = []

    def run(self, probe: Probe, **inputs: Any) -> Any:
        """What `probe` returns for these inputs, run beside the student's code."""
        return self.ask("", probe, inputs)

    def ask(self, function: str, probe: Probe, inputs: dict[str, Any]) -> Any:
        """The same, for the function of that name; the call is noted."""
        self.asked_for = function
        try:
            value = self._session.run(probe, inputs)
        except Exception as e:
            self.calls.append(Call(probe, inputs, raised=misconceptions.name_of(e)))
            raise
        self.calls.append(Call(probe, inputs, value))
        return value

    def __getattr__(self, module: str) -> "RemoteModule":
        if module.startswith("_"):
            raise AttributeError(module)
        return RemoteModule(self, module)


@dataclass(frozen=True)
class RemoteModule:
    """One module of the student's: an attribute is a function that takes and returns plain data."""

    _student: RemoteStudent
    _module: str

    def __getattr__(self, function: str) -> Callable[..., Any]:
        from tests.probes import call  # the course's, on sys.path only while it is graded

        if function.startswith("_"):
            raise AttributeError(function)

        def remote(*args: Any, **kwargs: Any) -> Any:
            inputs = {"module": self._module, "function": function, "args": args, "kwargs": kwargs}
            return self._student.ask(function, call, inputs)

        return remote


@dataclass(eq=False)
class _Test:
    """What is known of one test function, over all its parametrized cases."""

    problem: Problem
    device: str
    weight: int
    statuses: list[Status] = field(default_factory=list)
    verdict: Verdict | None = None
    mistake: Fragment | None = None
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """Count one case; the first that did not pass has the word."""
        if verdict.status is not Status.PASSED and not self.verdict:
            self.verdict = verdict
        self.statuses.append(verdict.status)

    def outcome(self, name: str) -> Outcome:
        """How the function ended; a test that was collected and never ran is our fault, not a pass."""
        if not self.statuses:
            return Outcome(
                id=name,
                device=self.device,
                weight=self.weight,
                status=Status.GRADER_ERROR,
                message="the test was collected but did not run",
            )
        told = self.verdict or Verdict(Status.PASSED)
        return Outcome(
            id=name,
            device=self.device,
            weight=self.weight,
            status=worst(self.statuses),
            message=told.message,
            rule=told.rule,
            mistake=self.mistake.summary if self.mistake else "",
            hint=self.mistake.hint if self.mistake else told.hint,
            seconds=self.seconds,
        )


class _Run:
    """One submission's run: a pytest plugin that binds `student` and listens to how each test ends."""

    __name__ = "grader"  # the name under which tests/conftest.py finds it

    def __init__(
        self,
        submission: Submission,
        course: Course,
        sandbox: Sandbox,
        problems: list[Problem],
        device: str,
        seed: int,
        progress: Progress | None,
    ) -> None:
        self.seed = seed
        self.explain = True
        self.until_one_fails = False
        self.open_session: Callable[..., Any] = Session
        self._course = course
        self._sandbox = sandbox
        self._problems = {p.id: p for p in problems}
        self._here = [p for p in problems if device in course.hidden_tests(p)]  # those that have tests for the device
        self._broken = ""  # what is wrong with the GPU, from the moment that it is
        self._device = device
        self._progress = progress
        self._sources = dict(submission.sources)
        self._tests: dict[tuple[str, str], _Test] = {}
        self._budgets: dict[str, Budget] = {}  # problem id to the time of all its tests
        self._faults: dict[str, str] = {}  # problem id to what kept its tests from being collected
        self._settled: dict[str, tuple[Status, str]] = {}  # problems whose tests need not run
        self._session: Session | None = None
        self._student: RemoteStudent | None = None
        self._student_seed = 0
        self._rng_state: torch.Tensor | None = None
        self._cases: list[Case] = []  # of the problem whose tests are running
        self._done = self._to_run = 0
        self._interrupted = False

    def outcomes(self) -> dict[str, list[Outcome]]:
        """Run the tests; how each ended, by problem."""
        try:
            self._look_at_device()
            self._settled = inspection.settled_without_running(
                self._sources, self._here, self._course.limits, self._sandbox, self.open_session
            )
            self._run_pytest()
        except GraderFault as e:
            self._faults = dict.fromkeys(self._problems, str(e))
        return {problem_id: self._outcomes_of(problem_id) for problem_id in self._problems}

    def _look_at_device(self) -> None:
        """Have the GPU used by a process without a student's code; note what is wrong with it, if anything is."""
        try:
            if self._sandbox.gpu and self._here:
                check_device(self._sandbox, self._course.limits)
        except GraderFault as e:
            self._broken = str(e)

    def _outcomes_of(self, problem_id: str) -> list[Outcome]:
        tests = [(name, test) for (owner, name), test in self._tests.items() if owner == problem_id]
        if self.until_one_fails:
            tests = [(name, test) for name, test in tests if test.statuses]
        found = [test.outcome(name) for name, test in tests]
        device = self._problems[problem_id].device
        missing = "" if any(o.device == device for o in found) else f"no hidden test was found for its device, {device}"
        if fault := self._faults.get(problem_id) or missing:
            found = [Outcome(id=SUITE, device=device, weight=1, status=Status.GRADER_ERROR, message=fault)]
        return found

    def _run_pytest(self) -> None:
        for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):  # of whoever runs the grader: no business of a grade
            os.environ.pop(name, None)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        files = [str(path) for p in self._problems.values() for path in self._course.hidden_tests(p).values()]
        if not files:
            return  # pytest would look for tests elsewhere
        plugins = ["terminal", "cacheprovider", "logging", "unraisableexception", "threadexception"]
        options = ["-c", os.devnull, "--rootdir", str(self._course.root), "-o", f"pythonpath={self._course.root}"]
        options += ["--import-mode=importlib", "--continue-on-collection-errors", "--assert=plain", "-s"]
        options += [word for plugin in plugins for word in ("-p", f"no:{plugin}")]  # of no use here, and slow
        options += ["-x"] if self.until_one_fails else []
        code = pytest.main([*options, *files], plugins=[self])
        if self._interrupted:
            raise KeyboardInterrupt  # pytest makes an exit code of it
        done = (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,  # none is left to run; whether there were any is looked at afterwards
            *([pytest.ExitCode.INTERRUPTED] if self.until_one_fails else []),
        )
        if code not in done and not self._faults:
            raise GraderFault(f"pytest ended with {code!r} before the tests were done")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note Ctrl-C; what pytest itself stops with is of the same kind."""
        self._interrupted = type(excinfo.value) is KeyboardInterrupt

    # --- what conftest asks for

    def student_for(self, item: pytest.Item) -> RemoteStudent:
        """A student of this test's own; its child process starts when it is first used."""
        if self._broken:
            raise GraderFault(self._broken)
        problem = self._problem_of(item)
        starting = STARTING_SECONDS[self._device]
        usual = self._course.limits_of(problem)
        seconds, cpu_seconds = usual.wall_seconds + starting, usual.cpu_seconds + starting
        limits = msgspec.structs.replace(usual, wall_seconds=seconds, cpu_seconds=cpu_seconds)
        seed = int.from_bytes(hashlib.sha256(f"{self.seed}:{item.name}:student".encode()).digest()[:7], "big")
        self._session = self.open_session(
            self._sandbox,
            self._sources,
            limits,
            seed=seed,
            forbidden=problem.forbidden,
            by_hand=problem.by_hand,
            budget=self._budget_of(problem),
        )
        self._student, self._student_seed = RemoteStudent(self._session), seed
        return self._student

    def _budget_of(self, problem: Problem) -> Budget:
        """A problem's share of the submission's time, by its points: endless loops in one problem cost the others nothing.

        The share is the same whichever problems are graded. The clock is as generous to all tests as it is to a usual one.
        """
        if problem.id not in self._budgets:
            limits = self._course.limits
            of_device = [p for p in self._course.problems if self._device in self._course.hidden_tests(p)]
            seconds = limits.submission_seconds * problem.points / sum(p.points for p in of_device)
            wall_seconds = seconds * limits.wall_seconds / limits.cpu_seconds
            self._budgets[problem.id] = Budget(seconds, wall_seconds, free_seconds=STARTING_SECONDS[self._device])
        return self._budgets[problem.id]

    # --- what pytest tells us

    def pytest_configure(self, config: pytest.Config) -> None:
        """Tracebacks are for nobody here, and cost more than most tests."""
        config.option.tbstyle = "no"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that cannot be read is our fault, for its problem alone."""
        if report.failed:
            name = report.nodeid.rsplit("/", 1)[-1].removeprefix("test_").removesuffix(".py")
            for problem_id in [name] if name in self._problems else self._problems:
                self._faults[problem_id] = f"its hidden tests cannot be read: {_last_line(report.longreprtext)}"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what is expected to run; leave out what is settled already."""
        for item in items:
            test = self._test_of(item)
            if settled := self._settled_for(test):
                test.statuses = []  # once, however many cases it has
                test.add(settled)
        items[:] = [item for item in items if not self._settled_for(self._test_of(item))]
        self._to_run = len(items)

    def _settled_for(self, test: _Test) -> Verdict | None:
        """How a test that need not run ended: it waits for its device, or its problem is settled."""
        if test.device != self._device:
            return Verdict(Status.DEFERRED, f"{test.problem.id}: {NEEDS[test.device]}")
        settled = self._settled.get(test.problem.id)
        return Verdict(*settled) if settled else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show progress."""
        if report.when == "teardown":
            self._done += 1
            if self._progress:
                problem_id = report.nodeid.rsplit("/", 1)[-1].split(".py", 1)[0].removeprefix("test_")
                self._progress(problem_id, self._done, self._to_run)

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Remember where the test's generator stood, so that the test can be repeated with the same inputs."""
        rng = item.funcargs.get("rng") if isinstance(item, pytest.Function) else None
        self._rng_state = rng.get_state() if isinstance(rng, torch.Generator) else None

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Classify how a phase of a test ended."""
        test = self._test_of(item)
        test.seconds += call.duration
        error = call.excinfo.value if call.excinfo else None
        if call.when == "call" or error is not None:
            verdict = self._judged(item, test.problem, error)
            test.add(verdict)
            self._keep(item, test, verdict, error)

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Have the student's process ended; after the last test of a problem, see whether its failures look like a mistake."""
        self._end_session()
        self._student = None
        problem = self._problem_of(item)
        if nextitem is None or self._problem_of(nextitem) != problem:
            cases, self._cases = self._cases, []
            self._name_mistakes(problem, cases)

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # --- and what we make of it

    def _judged(self, item: pytest.Item, problem: Problem, error: BaseException | None) -> Verdict:
        """How a test ended; where it did not pass on a GPU, only after a look whether that GPU still works."""
        rule = (getattr(item, "function", None).__doc__ or "").strip().splitlines()[:1]
        asked = self._student.asked_for if self._student else ""
        verdict = verdict_on(error, problem, test=item.name, rule="".join(rule), asked=asked)
        if self._sandbox.gpu and verdict.status not in INNOCENT:
            self._end_session()
            self._look_at_device()
        if self._broken:
            return Verdict(Status.GRADER_ERROR, printable(f"{problem.id} · {item.name}: {self._broken}", MAX_MESSAGE))
        return verdict

    def _keep(self, item: pytest.Item, test: _Test, verdict: Verdict, error: BaseException | None) -> None:
        """Keep what a test asked, so that it can be rehearsed. Not on a CUDA device: this process touches none."""
        student, state = self._student, self._rng_state
        if not self.explain or student is None or test.device == "cuda" or not isinstance(item, pytest.Function):
            return
        if not item.funcargs.keys() >= set(item._fixtureinfo.argnames):
            return  # one of its fixtures failed
        arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}

        def repeat(rehearsal: Any) -> None:
            again: dict[str, Any] = {"student": RemoteStudent(rehearsal)}
            if state is not None:
                again["rng"] = torch.Generator().set_state(state)
            item.function(**{**arguments, **{name: again[name] for name in again if name in arguments}})

        failure = error if isinstance(error, Exception) else None
        function = verdict.function if verdict.function in test.problem.functions else ""
        self._cases.append(Case(self._test_of(item), self._student_seed, repeat, student.calls, failure, function))

    def _name_mistakes(self, problem: Problem, cases: list[Case]) -> None:
        try:
            named = misconceptions.explained(problem.id, problem.module, problem.functions, cases)
        except Exception:  # a word of help is not worth a grade; tests/grader holds that every wrong solution can be loaded
            return
        for test, mistake in named.items():
            test.mistake = mistake

    def _test_of(self, item: pytest.Item) -> _Test:
        problem = self._problem_of(item)
        device = device_of(item.path)
        key = (problem.id, id_of_test(device, getattr(item, "originalname", None) or item.name))
        if key not in self._tests:
            mark = item.get_closest_marker("points")
            weight = mark.args[0] if mark else 1
            if type(weight) is not int or weight < 1:
                self._faults[problem.id] = f"{item.name} is marked points({weight}): expected a whole number above 0"
                weight = 1
            self._tests[key] = _Test(problem, device, weight)
        return self._tests[key]

    def _problem_of(self, item: pytest.Item) -> Problem:
        return self._problems[item.path.stem.removeprefix("test_")]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
