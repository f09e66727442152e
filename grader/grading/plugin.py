"""The pytest plugin of one grade: it gives each test its student, and listens to how each ends."""

import os

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

NEEDS = {
    "cpu": "runs on a CPU",
    "cuda": "needs a CUDA device",
}  # what is said of a test that was deferred
OF_NO_USE = (
    "terminal",
    "cacheprovider",
    "logging",
    "unraisableexception",
    "threadexception",
)  # plugins, and slow ones
Settled = dict[str, Verdict]  # by problem


def run_tests(job: Job, outcomes: Outcomes, settled: Settled, health: GpuHealth) -> None:
    """Have pytest run the hidden tests in this process, and record how each ended.

    Raises:
        GraderFault: pytest stopped before the tests were done.
    """
    if not job.files:
        return  # pytest would look for tests elsewhere
    for name in (
        "PYTEST_ADDOPTS",
        "PYTEST_PLUGINS",
    ):  # of whoever runs the grader: no business of a grade
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
    plugin = Plugin(job, outcomes, settled, health)
    code = pytest.main([*options, *job.files], plugins=[plugin])
    if plugin.interrupted:
        raise KeyboardInterrupt  # pytest makes an exit code of it
    done = [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED]
    done += [
        pytest.ExitCode.NO_TESTS_COLLECTED
    ]  # none is left to run; `Outcomes` knows whether there were any
    done += [pytest.ExitCode.INTERRUPTED] if job.until_one_fails else []
    if code not in done and not outcomes.faults:
        raise GraderFault(f"pytest ended with {code!r} before the tests were done")


class Plugin:
    """What pytest tells of the tests of one grade, and what it asks.

    Args:
        job: What is graded.
        outcomes: Where to record how a test ended.
        settled: Problems whose tests need not run, and how they ended.
        health: Of the GPU.
    """

    def __init__(self, job: Job, outcomes: Outcomes, settled: Settled, health: GpuHealth) -> None:
        self._job, self._outcomes, self._settled, self._health = job, outcomes, settled, health
        self._students = Students(job)
        self._student: RemoteStudent | None = None  # of the test that is running
        self._rng_state: torch.Tensor | None = None  # of its generator, before it ran
        self._cases = Cases(job.course)
        self._done = self._to_run = 0
        self.interrupted = False

    def pytest_configure(self, config: pytest.Config) -> None:
        """Tracebacks are for nobody here, and cost more than most tests."""
        config.option.tbstyle = "no"

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note Ctrl-C; what pytest itself stops with is of the same kind."""
        self.interrupted = type(excinfo.value) is KeyboardInterrupt

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file of tests that cannot be read."""
        if report.failed:
            self._outcomes.cannot_be_read(
                report.nodeid, (report.longreprtext.strip().splitlines() or [""])[-1]
            )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what is expected to run; leave out what is settled already."""
        waiting = []
        for item in items:
            entry = self._outcomes.entry_of(item)
            if verdict := self._settled_for(entry):
                entry.settle(verdict)
            else:
                waiting.append(item)
        items[:] = waiting
        self._to_run = len(items)

    def _settled_for(self, entry: Entry) -> Verdict | None:
        """How a test that need not run ended: it waits for its device, or its problem is settled."""
        if entry.device != self._job.device:
            return Verdict(Status.DEFERRED, NEEDS[entry.device])
        return self._settled.get(entry.problem.id)

    @pytest.hookimpl(optionalhook=True)  # the tests' conftest.py says what it is
    def pytest_make_student(self, item: pytest.Item) -> RemoteStudent:
        """A student in the sandbox, for this test alone."""
        if self._health.complaint:
            raise GraderFault(self._health.complaint)
        self._student = self._students.for_test(self._outcomes.problem_of(item), item.name)
        return self._student

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Remember where the test's generator stood, so that the test can be repeated with the same inputs."""
        rng = item.funcargs.get("rng") if isinstance(item, pytest.Function) else None
        self._rng_state = rng.get_state() if isinstance(rng, torch.Generator) else None

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Judge how a phase of a test ended."""
        entry = self._outcomes.entry_of(item)
        entry.seconds += call.duration
        error = call.excinfo.value if call.excinfo else None
        if call.when == "call" or error is not None:
            verdict = self._judged(item, error)
            entry.add(verdict)
            if self._job.explain and self._student and isinstance(item, pytest.Function):
                self._cases.keep(item, entry, self._student, self._rng_state, verdict, error)

    def _judged(self, item: pytest.Item, error: BaseException | None) -> Verdict:
        """How a test ended; where it did not pass on a GPU, only after a look whether that GPU still works."""
        rule = (getattr(item, "function", None).__doc__ or "").strip().splitlines()[:1]
        asked = self._student.asked_for if self._student else ""
        verdict = verdict_on(error, test=item.name, rule="".join(rule), asked=asked)
        if self._health.may_be_the_reason(verdict):
            self._end_student()
            self._health.look()
        return our_fault(item.name, self._health.complaint) if self._health.complaint else verdict

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Have the student's process ended; after the last test of a problem, see whether its failures look like a mistake."""
        self._end_student()
        self._student = None
        problem = self._outcomes.problem_of(item)
        if nextitem is None or self._outcomes.problem_of(nextitem) != problem:
            for entry, mistake in self._cases.explained(problem).items():
                entry.mistake = mistake

    def _end_student(self) -> None:
        if self._student is not None:
            self._student.close()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show progress."""
        if report.when == "teardown":
            self._done += 1
            if self._job.progress:
                self._job.progress(problem_of_file(report.nodeid), self._done, self._to_run)
