"""The suite's own proof: a test suite is a program and must be tested itself.

For each problem, the reference must pass every test with every seed, and every test of the stub
must be `not_attempted`. Each wrong solution must fail a test of its own problem and none of another
problem in its module. Each variant must pass every test, and each hidden test must catch something.
On request, hidden tests must also detect each mutant of the reference that is not listed as
equivalent.

The trials that `derived_trials.py` derives from the reference show that the suite can handle any
answer. If the answer is a constant, no test may pass, and no test may raise an exception of its
own. A correct solution must lose nothing for other error messages, types or arithmetic. If a field
of an answer gets another value, a test must fail; otherwise no test looks at that field.

All of this applies to the tests for one device. It depends on how tests end and not on points,
because the CPU tests of a CUDA problem are worth no points.
"""

import ast
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue

from grader.base.errors import CourseFault, UsageError
from grader.course import courses
from grader.course.courses import Course, Problem, id_of_test, sources_in
from grader.grading.blame import UNUSABLE
from grader.grading.grade import grade, import_libraries
from grader.grading.grading_job import Host, Opens
from grader.grading.local_student import LocalBox, LocalSession
from grader.grading.undo_settings import silenced
from grader.proof import changed_fields, course_checks, hostile_answers, mutants, public_tests
from grader.proof.derived_trials import derived
from grader.proof.result_matrix import HiddenTest, Matrix, tests_in
from grader.proof.trial_kinds import DECLINABLE, KINDS, Judged, Row
from grader.results.points import HARM, weights_by_harm
from grader.results.result_records import SubmissionResult
from grader.sandbox import gpu_turns, levels
from grader.sandbox.gpus import Gpu
from grader.sandbox.process_pool import Pool, close_at_end, own_course, own_sandbox
from grader.sandbox.session import Session
from grader.solutions import fragments, known_mistakes
from grader.solutions.fragments import Fragment
from grader.solutions.known_mistakes import Mistake
from grader.submission.submissions import Submission

# One in this many wrong solutions and variants is graded again, with a process for each test.
ONE_IN = 32
# How often each hostile value is tried, each time in other places and on other inputs.
HOSTILE_ROUNDS = 2
LIGHT_SEEDS = 5
TICK_SECONDS = 0.5  # how often to look whether a trial waits for the GPU
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class How:
    """What is tried, and how."""

    # The device whose tests are run, "cpu" or "cuda". The CUDA tests of a CPU problem have to catch
    # only the wrong solutions that no test on a CPU can detect.
    device: str = "cpu"
    seeds: int = 1  # how many seeds the reference and the variants are graded with
    mutants: bool = False  # whether to try mutants of the reference too, on a CPU
    # Try a sample of each kind, and stop wrong solutions at their first failed test. Tests then
    # need not earn their place, and mistakes need not justify their cost.
    quick: bool = False
    # Run our own code in the processes of the tests, without a sandbox, which is twice as fast.
    # Trials that only a sandbox can judge, such as uninitialized memory, are left out.
    draft: bool = False
    # Try what costs the author nothing, mutants among it. Nothing has to be justified.
    light: bool = False
    only_prices: bool = False  # try only what known mistakes cost, without a sandbox


@dataclass(frozen=True)
class Trial:
    """One submission to be graded, and the outcome that its problem requires."""

    problem: Problem
    kind: str  # one of `trial_kinds.KINDS`
    name: str  # the name of the trial within its kind
    sources: dict[str, bytes]  # the submission
    device: str  # the device whose tests are run
    seed: int = 0  # the seed to grade it with
    neighbours: tuple[Problem, ...] = ()  # other problems, whose tests the submission must all pass
    excused: str = ""  # why a mutant need not be detected, or a wrong solution costs so much
    most: float | None = None  # the most points that a wrong solution may earn
    until_one_fails: bool = False  # whether one failed test is enough
    twice: bool = False  # whether a process for each test must give the same
    in_process: bool = False  # whether our code may run in the process of the tests, on a CPU
    sessions: tuple[Opens, ...] = (LocalSession,)  # there, tried in turn until a test fails
    broken: str = ""  # why there is no such submission; empty if there is one
    with_public: bool = False  # whether to run the problem's public tests on it, too
    # Whether nobody has read it: whatever the other fields say, it runs in the sandbox only.
    is_unread: bool = False

    @property
    def runs_here(self) -> bool:
        """Whether the trial runs in the process of the tests."""
        return self.in_process and self.device == "cpu" and not self.is_unread


def validate(
    course: Course,
    problems: list[Problem],
    how: How,
    *,
    gpu: Gpu | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Matrix:
    """Grade every reference, stub, wrong solution and variant of these problems.

    Args:
        course: The course; its reference solutions, wrong solutions and variants are the grader's
            own.
        problems: The problems to check; those without tests for the device are left out.
        how: What is tried.
        gpu: The GPU that the submissions get as their CUDA device.
        jobs: The number of processes, each with its own sandbox. On a CUDA device, only one process
            is used.
        progress: Called after each trial.

    Raises:
        UsageError: None of the problems has tests for the device.
    """
    courses.check_packages(course)
    import_libraries(course)
    chosen = [problem for problem in problems if how.device in course.hidden_tests(problem)]
    if not chosen:
        missing = course.hidden / problems[0].id / courses.HIDDEN_TESTS[how.device]
        raise UsageError(
            f"--device {how.device}: expected tests of these problems, got none; write {missing}"
        )
    if wrong := list(course_checks.wrong_names(course)):
        return Matrix(wrong=wrong)  # what is missing cannot be tried
    trials = [trial for problem in chosen for trial in _chosen(course, problem, how)]
    matrix = _described(course, problems, chosen, trials, how)
    for name, check in _checks(course, problems, chosen, how):
        if progress:
            progress(name, 0, len(trials))
        found = list(check())
        matrix.wrong += found
        matrix.checked[name] = not found
    jobs = 1 if how.device == "cuda" else min(jobs, len(trials))
    rows = _rows(trials, course, gpu, jobs, progress)
    matrix.rows = [_unless_declined(row, matrix.declined[row.problem]) for row in rows]
    if how.light:
        matrix.rows = [replace(r, complaint="") if r.kind == "mutant" else r for r in matrix.rows]
    if how == How(seeds=how.seeds, mutants=how.mutants):  # every kind was tried
        matrix.wrong += _needlessly_declined(rows, matrix.declined)
    return matrix


def _described(
    course: Course, problems: list[Problem], chosen: list[Problem], trials: list[Trial], how: How
) -> Matrix:
    """What is known before any trial has run."""
    matrix = Matrix(
        unread=sum(trial.is_unread for trial in trials),
        declined={problem.id: problem.declined for problem in chosen},
        green_may_lose=course.green_may_lose,
        points=sum(problem.points for problem in course.problems),
        is_light=how.light,
    )
    if not how.quick:
        matrix.tests = {problem.id: _tests(course, problem, how.device) for problem in chosen}
    if how.device == "cpu":
        known = [m for p in problems for m in known_mistakes.load(course.hidden, p.id)]
        matrix.owed = sum(mistake.devices == ("cuda",) for mistake in known)
    return matrix


def _checks(
    course: Course, problems: list[Problem], chosen: list[Problem], how: How
) -> Iterator[tuple[str, Callable[[], Iterator[str]]]]:
    """What of the course is checked besides its hidden tests, by name."""
    yield "points by harm", lambda: course_checks.light_harm(course, chosen)
    if how.device == "cuda":
        return
    yield "refusals of public tests", lambda: public_tests.unpromised(course, chosen)
    if how.only_prices:
        return
    if not how.quick:
        yield "public tests", lambda: course_checks.public_tests(course, chosen)
    if not how.draft and problems == course.problems:
        yield "the zip for Gradescope", lambda: course_checks.gradescope(course)


def _unless_declined(row: Row, declined: dict[str, str]) -> Row:
    """The row, without its complaint if the problem declines the requirement with a reason."""
    reason = declined.get(f"{row.kind} {row.name}") or declined.get(row.kind)
    if not reason or not row.complaint or row.kind not in DECLINABLE:
        return row
    return replace(row, complaint="", reason=reason)


def _needlessly_declined(rows: list[Row], declined: dict[str, dict[str, str]]) -> Iterator[str]:
    """The requirements that a problem declines although every trial meets them."""
    for problem, reasons in declined.items():
        failed = [row for row in rows if row.problem == problem and row.complaint]
        used = {key for row in failed for key in (row.kind, f"{row.kind} {row.name}")}
        for key in reasons:
            if key.split(" ", 1)[0] in KINDS and key not in used:
                yield f"{problem}: declined: {key!r} is met, so remove it"


def _rows(
    trials: list[Trial], course: Course, gpu: Gpu | None, jobs: int, progress: Progress | None
) -> list[Row]:
    """The outcome of each trial, in the order of the trials."""
    rows: dict[int, Row] = {}
    needs_sandbox = gpu is not None or not all(trial.runs_here for trial in trials)
    isolation = levels.strongest() if needs_sandbox else None
    with Pool(course, jobs, gpu=gpu, isolation=isolation) as pool:
        ended: SimpleQueue[Future[Row]] = SimpleQueue()
        waiting = {pool.submit(ended, _run, trial): i for i, trial in enumerate(trials)}
        while waiting:
            try:
                future = ended.get(timeout=TICK_SECONDS)
            except Empty:
                if progress and gpu and (text := gpu_turns.waits(gpu)):
                    progress(text, len(rows), len(trials))
                continue
            i = waiting.pop(future)
            rows[i] = future.result()
            if progress and waiting:
                running = trials[min(waiting.values())]  # they begin in this order
                progress(f"{running.problem.id} {running.name}"[:60], len(rows), len(trials))
    return [rows[i] for i in sorted(rows)]


def _tests(course: Course, problem: Problem, device: str) -> dict[str, HiddenTest]:
    """The tests of a problem for a device, by id, as their file describes them."""
    found = tests_in(course.hidden_tests(problem)[device])
    classes = [said.harm for said in found.values()]
    weights = weights_by_harm(classes) if {*classes} <= HARM.keys() else [0] * len(classes)
    return {
        id_of_test(device, function): replace(
            said, points=problem.points * weight / (sum(weights) or 1)
        )
        for (function, said), weight in zip(found.items(), weights, strict=True)
    }


def _chosen(course: Course, problem: Problem, how: How) -> list[Trial]:
    """The trials of a problem, as they are run."""
    seeds = max(how.seeds, LIGHT_SEEDS) if how.light else how.seeds
    with_mutants = how.mutants or (how.light and how.device == "cpu")
    trials = list(trials_of(course, problem, seeds, with_mutants, how.device))
    if how.light:
        trials = [trial for trial in trials if KINDS[trial.kind].is_light]
    if how.only_prices:
        wrong = [trial for trial in trials if trial.kind == "wrong" and not trial.is_unread]
        trials = [replace(trial, neighbours=()) for trial in wrong]
    if how.quick:
        trials = _sample(trials)
    elif how.device == "cpu":
        trials = [replace(t, with_public=KINDS[t.kind].runs_public) for t in trials]
    if how.draft or how.only_prices:
        trials = [replace(t, in_process=True) for t in trials if not KINDS[t.kind].needs_sandbox]
    return trials


def _sample(trials: list[Trial]) -> list[Trial]:
    """The trials of a quick run: every nth trial of each kind."""
    kept = [
        trial
        for kind in KINDS.values()
        for trial in [t for t in trials if t.kind == kind.name][:: kind.every]
    ]
    return [
        replace(t, until_one_fails=True, neighbours=(), most=None, excused="-")
        if t.kind == "wrong"
        else t
        for t in kept
    ]


def trials_of(
    course: Course, problem: Problem, seeds: int, with_mutants: bool, device: str
) -> Iterator[Trial]:
    """Yield every trial of a problem's tests for a device."""
    reference = sources_in(course.reference)
    for seed in range(seeds):
        yield Trial(problem, "reference", "reference", reference, device, seed)
    yield Trial(problem, "stub", "stub", sources_in(course.assignment), device)
    yield from _trials_of_solutions(course, problem, device, seeds, reference)
    yield from _trials_of_answers(course, problem, device, reference)
    yield from _trials_of_fields(course, problem, device, reference)
    if with_mutants:
        yield from _trials_of_mutants(course, problem, device, reference)


def _trials_of_solutions(
    course: Course, problem: Problem, device: str, seeds: int, reference: dict[str, bytes]
) -> Iterator[Trial]:
    """Yield a trial of each wrong solution, and for each seed one of each right one."""
    module = course.reference_of(problem)
    neighbours = tuple(p for p in course.problems if p.module == problem.module and p != problem)
    solutions = [*to_catch(course, problem, device), *right_solutions(course, problem, device)]
    for number, solution in enumerate(solutions):
        try:
            source = solution.applied_to(module)
            ast.parse(source)
        except (CourseFault, SyntaxError) as e:
            broken = f"it is not Python: {e}" if isinstance(e, SyntaxError) else str(e)
            yield Trial(problem, "wrong", solution.name, {}, device, broken=broken)
            continue
        sources = reference | {problem.path: source.encode()}
        touched = tuple(p for p in neighbours if solution.reaches(p.functions, module))
        twice = device == "cpu" and number % ONE_IN == 0
        one = Trial(problem, "variant", solution.name, sources, device, twice=twice)
        trial = replace(one, neighbours=touched)
        if isinstance(solution, Mistake):
            excused, most, is_unread = solution.price or "", solution.most, solution.is_unread
            yield replace(trial, kind="wrong", excused=excused, most=most, is_unread=is_unread)
        else:
            yield from (replace(trial, seed=seed) for seed in range(seeds))


def _trials_of_answers(
    course: Course, problem: Problem, device: str, reference: dict[str, bytes]
) -> Iterator[Trial]:
    """Yield the trials that rules make of the reference, and those with hostile values."""
    module = course.reference_of(problem)
    for kind, name, changed in derived(problem, module):
        twice, here = (kind, name) == ("import", "settings"), not KINDS[kind].needs_sandbox
        one = Trial(problem, kind, name, reference | changed, device, twice=twice, in_process=here)
        yield from (replace(one, seed=seed) for seed in range(2 if kind == "unwritten" else 1))
    for which in hostile_answers.values():
        one = Trial(problem, "hostile", which, reference, device, in_process=True)
        for number in range(HOSTILE_ROUNDS):
            session = partial(hostile_answers.HostileSession, which=which, round=number)
            yield replace(one, seed=number, sessions=(session,))


def _trials_of_fields(
    course: Course, problem: Problem, device: str, reference: dict[str, bytes]
) -> Iterator[Trial]:
    """Yield a trial of each field that a probe returns, in which the field has other values."""
    here = [course.hidden_tests(problem)["cpu"]] if device == "cpu" else []
    for probe, keys, changes in (f for file in here for f in changed_fields.of(course, file)):
        sessions = tuple(changed_fields.ChangedField(probe, keys, change) for change in changes)
        one = Trial(problem, "field", sessions[0].name, reference, device, in_process=True)
        yield replace(one, sessions=sessions, until_one_fails=not sessions[0].is_whole)


def _trials_of_mutants(
    course: Course, problem: Problem, device: str, reference: dict[str, bytes]
) -> Iterator[Trial]:
    """Yield a trial of each mutant of the reference."""
    module = course.reference_of(problem)
    excused = mutants.listed(course.mutants).get(problem.id, {})
    for mutant in mutants.of(module, problem.id):
        sources = reference | {problem.path: mutant.source.encode()}
        reason = excused.get(mutant.name, "")
        yield Trial(
            problem, "mutant", mutant.name, sources, device, excused=reason, until_one_fails=True
        )


def to_catch(course: Course, problem: Problem, device: str) -> list[Mistake]:
    """The wrong solutions of a problem that its tests for a device must catch."""
    usual = ("cpu", "cuda") if problem.device == "cuda" else ("cpu",)
    known = known_mistakes.load(course.hidden, problem.id, unread=True)
    return [mistake for mistake in known if mistake.is_tried_on(device, usual)]


def right_solutions(course: Course, problem: Problem, device: str) -> list[Fragment]:
    """The correct solutions of a problem in other styles, and those that known mistakes modify."""
    found = [
        *fragments.load(course.hidden, problem.id),
        *known_mistakes.bases(course.hidden, problem.id),
    ]
    return [f for f in found if f.is_tried_on(device, fragments.DEVICES)]


# --- in a process of its own ----------------------------------------------------------------------

_local: LocalBox | None = None


def _local_box() -> LocalBox:
    """The place in which this process runs our own code without a sandbox."""
    global _local
    if _local is None:
        _local = LocalBox()
        close_at_end(_local.close)
    return _local


def _run(trial: Trial) -> Row:
    """Grade one trial, including the problems in which it must lose nothing."""
    where = f"{trial.problem.id} · {trial.kind} {trial.name} (seed {trial.seed})"
    if trial.broken:
        complaint = f"{where}: {trial.broken}"
        points = trial.problem.points
        return Row(trial.problem.id, trial.kind, trial.name, trial.seed, 0, points, [], complaint)
    with silenced():
        return _graded(trial, where)


def _graded(trial: Trial, where: str) -> Row:
    course = own_course()
    here = trial.runs_here
    sandbox: Host = _local_box() if here else own_sandbox()

    def graded_with(session: Opens, *, fresh: bool) -> SubmissionResult:
        return grade(
            Submission(trial.name, trial.sources, []),
            course,
            sandbox,
            problems=[trial.problem, *trial.neighbours],
            device=trial.device,
            seed=trial.seed,
            explain=False,
            until_one_fails=trial.until_one_fails,
            fresh=fresh,
            session=session if here else Session,
        )

    for session in trial.sessions:
        graded = graded_with(session, fresh=False)
        result = next(p for p in graded.problems if p.id == trial.problem.id)
        if Judged(result, trial.device).lost or changed_fields.is_never_sent(session):
            break
    judged = Judged(result, trial.device, trial.excused, trial.most)
    if trial.kind == "field":
        judged = changed_fields.looked_at(judged, trial.sessions[0])
    told = (
        public_tests.first_failure(course, trial.problem, _local_box(), trial.sources)
        if trial.with_public and not trial.is_unread
        else None
    )
    complaint = _complaint(trial, judged, graded)
    if not complaint and told and trial.kind != "wrong":
        complaint = f"a public test refuses it: {told}"
    if trial.twice and not here and not complaint:
        complaint = differing(graded, graded_with(session, fresh=True))
    return Row(
        problem=trial.problem.id,
        kind=trial.kind,
        name=trial.name,
        seed=trial.seed,
        score=result.score,
        max_score=result.max_score - result.pending,
        failed=[test.id for test in judged.lost],
        share=judged.share,
        reason=trial.excused,
        complaint=f"{where}: {complaint}" if complaint else "",
        price=judged.share * trial.problem.points,
        told=told,
    )


def _complaint(trial: Trial, judged: Judged, graded: SubmissionResult) -> str:
    """What differs from the required outcome, or an empty string."""
    if faults := graded.grader_errors:
        return f"a fault of the tests: {faults[0][1].said}"
    kind = KINDS[trial.kind]
    unusable = [test for test in judged.lost if test.what == UNUSABLE]
    if unusable and not kind.breaks_answers:
        facts = ", ".join(f"{fact.label} {fact.text}" for fact in unusable[0].facts)
        return f"{unusable[0].id} raises an exception of its own ({facts}); judge the answer first"
    if complaint := kind.complaint(judged):
        return complaint
    others = [p.id for p in graded.problems if Judged(p, trial.device).lost]
    others = [problem for problem in others if problem != trial.problem.id]
    return f"it fails tests of {', '.join(others)} as well" if others else ""


def differing(shared: SubmissionResult, fresh: SubmissionResult) -> str:
    """The first test that ended differently in a process of its own, or an empty string."""
    for one, other in zip(shared.problems, fresh.problems, strict=True):
        for test, again in zip(one.tests, other.tests, strict=True):
            if (test.status, test.said) != (again.status, again.said):
                return (
                    f"{test.id} is {test.status} where tests share a process ({test.said}), "
                    f"and {again.status} in a process of its own ({again.said})"
                )
    return ""
