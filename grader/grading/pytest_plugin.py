"""The pytest plugin of one grading: gives each test its student, and records how each test ends."""

import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest
from msgspec import structs

from grader.base.errors import GraderFault, NotAttempted, Status, TimedOut
from grader.base.judging_time import JudgingTime
from grader.course.courses import problem_of_file
from grader.grading.blame import answer_at_fault, is_unexpected
from grader.grading.gpu_health import GpuHealth
from grader.grading.grading_job import Job
from grader.grading.hidden_outcomes import Outcomes, TestFunction
from grader.grading.hidden_tests import HiddenTests
from grader.grading.recorded_cases import Cases, arguments_of, repetition
from grader.grading.sandboxed_student import Budgets, SandboxedStudent, Students
from grader.grading.static_checks import Checked
from grader.grading.verdict import origin, our_fault, verdict_on
from grader.results.result_records import Fact, Outcome
from kit.safe_text import one_line
from kit.student import copy_of_generator

# The message of a deferred test.
NEEDS = {"cpu": "runs on a CPU", "cuda": "needs a CUDA device"}


def run_tests(
    job: Job, tests: HiddenTests, outcomes: Outcomes, checked: Checked, health: GpuHealth
) -> None:
    """Run the hidden tests with pytest in this process, and record how each of them ended.

    If a test fails in a shared process and passes in a new one, the student's code may give two
    answers to each test. Then all its problem's tests that have not failed run again, each in a
    process of its own, and with what is left of the same time. A test that has failed did so in a
    process of its own already, and stays failed: otherwise, code that remembers which answers did
    not pass could give others now, and the kernel counts much that no process can set back. The
    counts of the old box end with it; those of the machine do not (SECURITY.md lists them).

    Raises:
        GraderFault: pytest stopped before all tests were done.
    """
    for file, reason in tests.unreadable:
        outcomes.cannot_be_read(file, reason)
    waiting = []
    for item in tests.items:
        function = outcomes.of(item)
        if function.device != job.device:
            function.cases = [Outcome(status=Status.DEFERRED, what=NEEDS[function.device])]
        elif settled := checked.settled.get(function.problem.id):
            function.cases = [settled]
        else:
            waiting.append(item)
    budgets = Budgets(job.course, job.device)
    plugin = Plugin(job, outcomes, checked, health, budgets, to_run=len(waiting))
    tests.run(waiting, plugin, job.seed)
    doubted = [item for item in waiting if outcomes.problem_of(item).id in outcomes.in_doubt]
    again = [item for item in doubted if not outcomes.of(item).has_failed]
    if again:
        for item in again:
            outcomes.of(item).forget()
        job.sandbox.renew()
        for problem in job.problems:
            if problem.id in outcomes.in_doubt:
                budgets.of(problem).begin_again()
        job, done = replace(job, fresh=True), len(waiting)
        plugin = Plugin(job, outcomes, checked, health, budgets, to_run=len(again), done=done)
        tests.run(again, plugin, job.seed)


class Plugin:
    """The hooks through which pytest reports on the tests and requests their fixtures.

    `to_run` tests will run; `done` tests have run before.
    """

    def __init__(
        self,
        job: Job,
        outcomes: Outcomes,
        checked: Checked,
        health: GpuHealth,
        budgets: Budgets,
        *,
        to_run: int,
        done: int = 0,
    ) -> None:
        self._job, self._outcomes, self._health = job, outcomes, health
        self._students = Students(job, budgets)
        self._stubs, self._settings = checked.stubs, checked.settings
        self._may_share = False  # whether the next test may use the process of this one
        self._alone: set[str] = set()  # the problems whose tests no longer share a process
        self._student: SandboxedStudent | None = None  # of the test that is running
        self._rng: Any = None  # a copy of the test's generator, before the test ran
        self._cases, self._judging_time = Cases(job.course), JudgingTime()
        self._done, self._to_run = done, done + to_run
        self.is_enough = False  # whether no further test needs to run

    @pytest.hookimpl(optionalhook=True)  # specified by the tests' conftest.py
    def pytest_make_student(self, item: pytest.Item) -> SandboxedStudent:
        """Make a student in the sandbox for this test."""
        if self._health.complaint:
            raise GraderFault(self._health.complaint)
        self._may_share = False
        if _wants_its_own_process(item):
            self._students.end()
        self._student = self._students.for_test(self._outcomes.problem_of(item), item.name)
        return self._student

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Run a test; if it does not pass in a shared process, repeat it in a fresh process.

        A test that has called a stub ends in the same way in any process, so it is not repeated. If
        a repetition passes, the problem's other tests no longer share a process.
        """
        arguments = arguments_of(pyfuncitem)
        try:
            with self._judging_time.limit():
                pyfuncitem.obj(**arguments)
        except (Exception, pytest.fail.Exception) as e:
            if self._student is None or not self._student.is_shared or self._called_a_stub(e):
                raise
            self._student.begin_again()
            _empty_frames(e)
            if "rng" in arguments:
                arguments["rng"] = copy_of_generator(self._rng)
            with self._judging_time.limit():
                pyfuncitem.obj(**arguments)
            problem = self._outcomes.problem_of(pyfuncitem)
            self._alone.add(problem.id)
            if not isinstance(e, (TimedOut, GraderFault)):  # which are no answers
                self._outcomes.in_doubt.add(problem.id)
        return True

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Copy the test's generator, so that a repetition gets the same inputs."""
        rng = item.funcargs.get("rng") if isinstance(item, pytest.Function) else None
        self._rng = None if rng is None else copy_of_generator(rng)

    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> pytest.TestReport:
        """Judge how a phase of a test (set-up, call or teardown) ended.

        pytest's own report would take longer, because it formats the traceback. An exception here
        would end all tests; instead, it is a fault of the grader in this test alone.
        """
        function = self._outcomes.of(item)
        function.seconds += call.duration
        error = call.excinfo.value if call.excinfo else None
        try:
            error = error and self._blamed(item, error)
            if call.when == "call" or error is not None:
                self._record(item, function, error)
        except Exception as e:
            error, self._may_share = e, False
            function.cases.append(our_fault(item.name, origin(e)))
        if error is not None:
            _empty_frames(error)
        assert call.when != "collect"
        outcome: Literal["passed", "failed"] = "passed" if error is None else "failed"
        return pytest.TestReport(item.nodeid, item.location, {}, outcome, None, call.when)

    def _record(
        self, item: pytest.Item, function: TestFunction, error: BaseException | None
    ) -> None:
        """Judge a test that ended with this exception, or with none."""
        ended = self._judged(item, error)
        function.cases.append(ended)
        self._may_share = ended.status is Status.PASSED or self._called_a_stub(error)
        # Wrong answers of code that has set what all code computes with say nothing about the rest.
        is_evidence = self._job.explain and function.problem.path not in self._settings
        if is_evidence and self._student and isinstance(item, pytest.Function):
            self._cases.keep(item, function, self._student, self._rng, ended, error)

    def _blamed(self, item: pytest.Item, error: BaseException) -> BaseException:
        """The exception that a test ends with: a Mismatch if an answer broke the test."""
        if self._student is None or not is_unexpected(error):
            return error
        # The exception may have interrupted a call, and the reference must not share the process.
        self._students.end()
        assert isinstance(item, pytest.Function)
        repeat = repetition(item, self._rng)
        problem = self._outcomes.problem_of(item)
        if repeat is None:
            return error
        time = self._judging_time
        return answer_at_fault(self._job, problem, self._student, repeat, time) or error

    def _called_a_stub(self, error: BaseException | None) -> bool:
        """Whether the test itself called a function that does nothing but raise this exception.

        If other code of the student's called the function, it may do so only in a used process.
        """
        if not isinstance(error, NotAttempted) or not error.is_direct:
            return False
        return (error.where or "").partition(" in ")[0] in self._stubs

    def _judged(self, item: pytest.Item, error: BaseException | None) -> Outcome:
        """How a test ended.

        If it did not pass on a GPU, first check that the GPU still works.
        """
        first_paragraph = (getattr(item, "function", None).__doc__ or "").strip().split("\n\n")[0]
        rule = " ".join(first_paragraph.split())
        asked = self._student.asked_for if self._student else ""
        packages = self._job.course.packages
        ended = verdict_on(error, test=item.name, rule=rule, asked=asked, packages=packages)
        setting = self._settings.get(self._outcomes.problem_of(item).path)
        facts = ended.facts
        if ended.status is Status.PASSED:
            facts = [Fact(label, str(text)) for label, text in item.user_properties]
        elif setting:
            facts = [*facts, Fact("setting", one_line(setting, 300))]
        if self._health.may_be_the_reason(ended):
            self._students.end()
            self._health.look()
        if self._health.complaint:
            return our_fault(item.name, self._health.complaint)
        return structs.replace(ended, facts=facts)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Leave the test; then pytest tears it down in any case, or no other could be set up."""
        try:
            self._leave(item, nextitem)
        finally:
            yield

    def _leave(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """End the student's process, unless the next test may share it.

        After the last test of a problem, compare its failures with the known mistakes.
        """
        problem = self._outcomes.problem_of(item)
        following = None if nextitem is None else self._outcomes.problem_of(nextitem)
        is_alone = _wants_its_own_process(item) or problem.id in self._alone
        shares = self._job.shares_processes and not is_alone
        if not (shares and self._may_share and following is problem):
            self._students.end()
        self._student = None
        if following is not problem:
            for function, mistake in self._cases.explained(problem).items():
                function.mistake = mistake

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report progress, and whether no further test needs to run."""
        self.is_enough |= report.failed and self._job.until_one_fails
        if report.when == "teardown":
            self._done += 1
            if self._job.progress:
                self._job.progress(problem_of_file(report.nodeid), self._done, self._to_run)


def _wants_its_own_process(item: pytest.Item) -> bool:
    """Whether no other test may use a test's process."""
    return item.get_closest_marker("own_process") is not None


def _empty_frames(error: BaseException) -> None:
    """Free the variables of a test that has ended, among them its answers.

    pytest's record of the call and the traceback refer to each other, and the garbage collector
    does not see how large the answers are.
    """
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__context__
