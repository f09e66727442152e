"""The pytest plugin of one grading: gives each test its student, and records how each test ends."""

import os
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from grader.course import problem_of_file
from grader.errors import GraderFault, Status
from grader.grading.gpu_health import GpuHealth
from grader.grading.job import Job
from grader.grading.outcomes import Entry, Outcomes
from grader.grading.recorded_cases import Cases
from grader.grading.sandboxed_student import RemoteStudent, Students
from grader.grading.verdict import Verdict, our_fault, verdict_on

# The message of a deferred test.
NEEDS = {"cpu": "runs on a CPU", "cuda": "needs a CUDA device"}
# Slow pytest plugins that a grade does not need.
OF_NO_USE = (
    *("terminal", "cacheprovider", "logging", "unraisableexception", "threadexception"),
    *("doctest", "junitxml", "legacypath", "pastebin", "setuponly", "setupplan", "stepwise"),
)
Settled = dict[str, Verdict]  # by problem


def run_tests(
    job: Job, outcomes: Outcomes, settle: Callable[[], Settled], health: GpuHealth
) -> None:
    """Run the hidden tests with pytest in this process, and record how each of them ended.

    Args:
        job: What is graded.
        outcomes: Where to record how a test ended.
        settle: Returns the verdicts of the problems whose tests need not run. It is called when
            pytest has collected the tests, because the sandbox may still be starting before that.
        health: The state of the GPU.

    Raises:
        GraderFault: pytest stopped before all tests were done.
        Exception: Whatever `settle` raises.
    """
    if not job.files:
        return  # without files, pytest would look for tests elsewhere
    # Settings of the person who runs the grader must not affect a grade.
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = ["-c", os.devnull, "--rootdir", str(job.course.root)]
    options += [
        "--import-mode=importlib",
        "--continue-on-collection-errors",
        "--assert=plain",
        "-s",
    ]
    options += [word for plugin in OF_NO_USE for word in ("-p", f"no:{plugin}")]
    options += ["--seed", str(job.seed), *(["-x"] if job.until_one_fails else [])]
    plugin = Plugin(job, outcomes, settle, health)
    code = pytest.main([*options, *job.files], plugins=[plugin])
    if plugin.interrupted:
        raise KeyboardInterrupt  # pytest turned it into an exit code
    if plugin.error:
        raise plugin.error
    done = [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED]
    # Every test may have been deselected; `Outcomes` reports a problem that has no tests.
    done += [pytest.ExitCode.NO_TESTS_COLLECTED]
    done += [pytest.ExitCode.INTERRUPTED] if job.until_one_fails else []
    if code not in done and not outcomes.faults:
        raise GraderFault(f"pytest ended with {code!r} before the tests were done")


class Plugin:
    """The hooks through which pytest reports on the tests and requests their fixtures.

    Args:
        job: What is graded.
        outcomes: Where to record how a test ended.
        settle: Returns the verdicts of the problems whose tests need not run.
        health: The state of the GPU.

    Attributes:
        interrupted: Whether Ctrl-C ended the tests.
        error: What `settle` raised.
    """

    def __init__(
        self, job: Job, outcomes: Outcomes, settle: Callable[[], Settled], health: GpuHealth
    ) -> None:
        self._job, self._outcomes, self._settle, self._health = job, outcomes, settle, health
        self._students = Students(job)
        self._passed = False  # whether the test that is running has passed so far
        self._student: RemoteStudent | None = None  # of the test that is running
        self._rng_state: torch.Tensor | None = None  # of the test's generator, before the test ran
        self._cases = Cases(job.course)
        self._done = self._to_run = 0
        self.interrupted = False
        self.error: Exception | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        """Turn tracebacks off: nobody reads them here, and they take longer than most tests."""
        config.option.tbstyle = "no"

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record Ctrl-C; pytest reports its own exit exceptions through the same hook."""
        self.interrupted = type(excinfo.value) is KeyboardInterrupt

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a test file that cannot be read."""
        if report.failed:
            self._outcomes.cannot_be_read(
                report.nodeid, (report.longreprtext.strip().splitlines() or [""])[-1]
            )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Record the tests that were found, and deselect those whose outcome is already known."""
        try:
            settled = self._settle()
        except Exception as e:  # pytest would report it as a fault of its own
            self.error, settled = e, {}
            items.clear()
        waiting = []
        for item in items:
            entry = self._outcomes.entry_of(item)
            if verdict := self._settled_for(entry, settled):
                entry.settle(verdict)
            else:
                waiting.append(item)
        items[:] = waiting
        self._to_run = len(items)

    def _settled_for(self, entry: Entry, settled: Settled) -> Verdict | None:
        """The verdict on a test that need not run: deferred, or settled with its whole problem."""
        if entry.device != self._job.device:
            return Verdict(Status.DEFERRED, NEEDS[entry.device])
        return settled.get(entry.problem.id)

    @pytest.hookimpl(optionalhook=True)  # specified by the tests' conftest.py
    def pytest_make_student(self, item: pytest.Item) -> RemoteStudent:
        """Make a student in the sandbox for this test."""
        if self._health.complaint:
            raise GraderFault(self._health.complaint)
        self._passed = False
        if _wants_its_own_process(item):
            self._students.end()
        self._student = self._students.for_test(self._outcomes.problem_of(item), item.name)
        return self._student

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Run a test; if it does not pass in a shared process, repeat it in a fresh process."""
        names = pyfuncitem._fixtureinfo.argnames
        arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
        try:
            pyfuncitem.obj(**arguments)
        except (Exception, pytest.fail.Exception):
            if self._student is None or not self._student.is_shared:
                raise
            self._student.begin_again()
            if self._rng_state is not None:
                arguments["rng"].set_state(self._rng_state)
            pyfuncitem.obj(**arguments)
        return True

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Save the state of the test's generator, so that a repetition gets the same inputs."""
        rng = item.funcargs.get("rng") if isinstance(item, pytest.Function) else None
        self._rng_state = rng.get_state() if isinstance(rng, torch.Generator) else None

    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> pytest.TestReport:
        """Judge how a phase of a test (set-up, call or teardown) ended.

        pytest's own report would take longer, because it formats the traceback.
        """
        entry = self._outcomes.entry_of(item)
        entry.seconds += call.duration
        error = call.excinfo.value if call.excinfo else None
        if call.when == "call" or error is not None:
            verdict = self._judged(item, error)
            entry.add(verdict)
            self._passed = verdict.status is Status.PASSED
            if self._job.explain and self._student and isinstance(item, pytest.Function):
                self._cases.keep(item, entry, self._student, self._rng_state, verdict, error)
        assert call.when != "collect"
        outcome: Literal["passed", "failed"] = "passed" if error is None else "failed"
        return pytest.TestReport(item.nodeid, item.location, {}, outcome, None, call.when)

    def _judged(self, item: pytest.Item, error: BaseException | None) -> Verdict:
        """The verdict on a test.

        If it did not pass on a GPU, first check that the GPU still works.
        """
        first_paragraph = (getattr(item, "function", None).__doc__ or "").strip().split("\n\n")[0]
        rule = " ".join(first_paragraph.split())
        asked = self._student.asked_for if self._student else ""
        verdict = verdict_on(error, test=item.name, rule=rule, asked=asked)
        if self._health.may_be_the_reason(verdict):
            self._students.end()
            self._health.look()
        return our_fault(item.name, self._health.complaint) if self._health.complaint else verdict

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """End the student's process, unless the next test may share it.

        After the last test of a problem, compare its failures with the known mistakes.
        """
        problem = self._outcomes.problem_of(item)
        is_last = nextitem is None or self._outcomes.problem_of(nextitem) != problem
        may_share = self._passed and self._job.shares_processes and not _wants_its_own_process(item)
        if is_last or not may_share:
            self._students.end()
        self._student = None
        if is_last:
            for entry, mistake in self._cases.explained(problem).items():
                entry.mistake = mistake

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report progress."""
        if report.when == "teardown":
            self._done += 1
            if self._job.progress:
                self._job.progress(problem_of_file(report.nodeid), self._done, self._to_run)


def _wants_its_own_process(item: pytest.Item) -> bool:
    """Whether a test is marked `own_process`: no other test may use its process."""
    return item.get_closest_marker("own_process") is not None
