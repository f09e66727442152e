"""Grade one submission: run the hidden tests in this process and add up the points.

Each test gets a `student` whose calls run in the sandbox.

No student code ever enters this process; the sandbox sends back plain data only. A test passes
when its own code finishes. It fails when `expect` raises a Mismatch or a call ends in a
StudentFault. Any other exception is the grader's fault.

`grade` needs a process to itself while it runs, because it changes the environment, the working
folder and the `tests` package in sys.modules.
"""

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType

from grader import __version__
from grader.base.errors import CourseFault, GraderFault
from grader.course.courses import Course, Problem
from grader.grading import free_memory
from grader.grading.gpu_health import GpuHealth
from grader.grading.grading_job import Host, Job, Opens, Progress
from grader.grading.hidden_outcomes import Outcomes
from grader.grading.hidden_tests import collected, forget
from grader.grading.pytest_plugin import run_tests
from grader.grading.static_checks import check_without_running
from grader.results.points import problem_result, submission_result
from grader.results.result_records import GraderInfo, SubmissionResult
from grader.sandbox.preflight import check_cpu
from grader.sandbox.session import Session
from grader.submission.submissions import Submission
from grader.wire import torch_compiler
from kit.safe_text import printable


def grade(
    submission: Submission,
    course: Course,
    sandbox: Host,
    *,
    problems: Iterable[Problem] | None = None,
    device: str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
    explain: bool = True,
    until_one_fails: bool = False,
    fresh: bool = False,
    session: Opens = Session,
    waiting: Callable[[str], None] = lambda _: None,
) -> SubmissionResult:
    """Grade a submission.

    Args:
        submission: The submission to grade.
        course: The course whose tests grade the submission.
        sandbox: The sandbox that runs the submission's code; the code leaves no traces in it.
        problems: The problems to grade; all by default.
        device: "cpu" or "cuda". Tests that need the other device are deferred, even if something is
            wrong with their module.
        seed: The seed of the tests' inputs: the same seed gives the same result.
        progress: Called after each test.
        explain: Compare wrong answers with those of known mistakes.
        until_one_fails: Stop at the first failure. Later tests are then missing from the result,
            and its scores are meaningless.
        fresh: Give each test a process of its own; otherwise they may share one.
        session: The factory of each test's connection to the submission's code: `Session` through
            the sandbox, or `LocalSession` for our own code.
        waiting: Called several times a second, with a message, while other graders use the GPU.

    Returns:
        The result; faults of the grader appear in it as `grader_error`.

    Raises:
        GraderFault: The tests cannot run on this machine, or the course is broken; no submission
            could be graded.
    """
    import_libraries(course)
    free_memory.collect()
    started = time.monotonic()
    chosen = list(course.problems if problems is None else problems)
    job = Job(
        # A given module that the submission lacks is the course's.
        sources=course.given_modules() | dict(submission.sources),
        course=course,
        sandbox=sandbox,
        problems=chosen,
        device=device,
        seed=seed,
        progress=progress,
        explain=explain,
        until_one_fails=until_one_fails,
        fresh=fresh,
        open_session=session,
        ignored=submission.ignored,
    )
    suite_sha256 = course.suite_sha256()
    with sandbox.turn(waiting) if job.here else nullcontext():
        outcomes, environment, readings = _tested(job, suite_sha256)
    info = GraderInfo(
        version=__version__,
        suite_sha256=suite_sha256,
        device=device,
        isolation=sandbox.isolation,
        seed=seed,
        environment=environment,
        readings=readings,
    )
    results = [
        problem_result(
            p.id, p.module, p.points, outcomes.of_problem(p, only_run=until_one_fails), p.device
        )
        for p in chosen
    ]
    return submission_result(submission.info, info, results, seconds=time.monotonic() - started)


def import_libraries(course: Course) -> None:
    """Import torch and NumPy if the course uses them, as the sandbox does.

    Raises:
        CourseFault: One of them cannot be imported.
    """
    for name in course.libraries:
        try:
            importlib.import_module(name)
        except ImportError as e:
            raise CourseFault(f"problems.toml: packages: {name} cannot be imported: {e}") from None
    if course.uses_torch:
        torch_compiler.postpone_import()
        # The tests' own tensors are small, and a second thread would compete with the student's.
        sys.modules["torch"].set_num_threads(1)


def _tested(job: Job, suite_sha256: str) -> tuple[Outcomes, dict[str, str], dict[str, str]]:
    """Run the tests; return the outcomes, the environment of the tests, and how the GPU ran."""
    outcomes, health = Outcomes(job.problems), GpuHealth(job)
    if not job.files:
        return outcomes, {}, {}
    with tests_of(job.course), closing(job.first_session(job.sources)) as session:
        tests = collected(job.course, job.files, suite_sha256)  # while the sandbox still starts
        check_cpu(session)
        environment = _environment(job.sandbox, job.device)
        try:
            checked = check_without_running(job, session)
            health.look_at_first()
            run_tests(job, tests, outcomes, checked, health)
        except GraderFault as e:
            outcomes.faults = {problem.id: str(e) for problem in job.problems}
        readings = health.described_at_the_end()
    return outcomes, environment, {name: printable(it, 300) for name, it in readings.items()}


def _environment(sandbox: Host, device: str) -> dict[str, str]:
    """The tests' environment, as the worker reported it before it saw a submission.

    Empty without a worker.
    """
    try:
        facts = sandbox.facts
    except GraderFault:
        return {}
    versions = {name: facts[name] for name in ("python", "torch") if name in facts}
    of_device = facts.get("environment", {}) if device == "cuda" else {}
    return {name: printable(str(value), 200) for name, value in {**versions, **of_device}.items()}


@contextmanager
def tests_of(course: Course) -> Iterator[None]:
    """Bind the name `tests` to this course's package.

    Another course's `tests` may have been imported before.
    """
    loaded = getattr(sys.modules.get("tests"), "__file__", None)
    is_another = loaded is not None and Path(loaded).parent.resolve() != course.tests.resolve()
    others = _modules_of_tests() if is_another else {}
    sys.path.insert(0, str(course.root))
    try:
        yield
    finally:
        sys.path.remove(str(course.root))
        if is_another:
            forget()  # the collected tests need the modules that are removed here
            _modules_of_tests()
            sys.modules.update(others)


def _modules_of_tests() -> dict[str, ModuleType]:
    """Remove the modules of the imported `tests` package from sys.modules and return them."""
    names = [name for name in sys.modules if name == "tests" or name.startswith("tests.")]
    return {name: sys.modules.pop(name) for name in names}
