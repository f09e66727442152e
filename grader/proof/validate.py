"""The suite's own proof: a test suite is a program and must be tested itself.

For each problem, the reference must pass every test with every seed, and every test of the stub
must be `not_attempted`. Each wrong solution must fail a test of its own problem and none of another
problem in its module. Each variant must pass every test, and each hidden test must catch something.
On request, hidden tests must also detect each mutant of the reference that is not listed as
equivalent.

The trials that `trials.py` derives from the reference show that the suite can handle any answer. If
the answer is a constant, no test may pass, and no test may raise an exception of its own. A correct
solution must lose nothing for other error messages, types or arithmetic. If a field of an answer
gets another value, a test must fail; otherwise no test looks at that field.

All of this applies to the tests for one device. It depends on how tests end and not on points,
because the CPU tests of a CUDA problem are worth no points.
"""

import ast
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from grader.base.errors import CourseFault, Status, UsageError
from grader.course import courses
from grader.course.courses import Course, Problem, id_of_test, sources_in
from grader.grading.blame import UNUSABLE
from grader.grading.grade import grade, import_libraries
from grader.grading.local_student import LocalBox, LocalSession
from grader.grading.sessions import Host, Opens
from grader.proof import fields, hostile, mutants, promised, public, whole
from grader.proof.matrices import KINDS, Claims, HiddenTest, Matrix, Row, tests_in
from grader.proof.trials import derived, wrong_for
from grader.results.records import ProblemResult, SubmissionResult, TestResult, worst
from grader.sandbox import levels, turns
from grader.sandbox.gpus import Gpu
from grader.sandbox.pool import Pool, close_at_end, own_course, own_sandbox
from grader.sandbox.session import Session
from grader.solutions import fragments, mistakes
from grader.solutions.fragments import Solution
from grader.solutions.mistakes import Mistake
from grader.submission.submissions import Submission

# A submission that checks no arguments may lose at most this share of a problem's points.
MOST_OF_CHECKS = 0.05
RIGHT = ("reference", "variant", "words", "types", "arithmetic")  # kinds that lose nothing
# The kinds of trials on which public tests are run. Those that are right must pass them.
WITH_PUBLIC = ("wrong", "variant", "words", "types", "arithmetic", "input")
# One in this many wrong solutions and variants is graded again, with a process for each test.
ONE_IN = 32
# A part of the message that reports uninitialized memory in an answer.
TOLD_OF_EMPTY = "torch.empty"
# How often each hostile value is tried, each time in other places and on other inputs.
HOSTILE_ROUNDS = 2
TICK_SECONDS = 0.5  # how often to look whether a trial waits for the GPU
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Trial:
    """One submission to be graded, and the outcome that its problem requires.

    Attributes:
        problem: The problem.
        kind: One of `matrix.KINDS`.
        name: The name of the trial within its kind.
        sources: The submission.
        device: The device whose tests are run.
        seed: The seed to grade it with.
        neighbours: Other problems, whose tests the submission must all pass.
        excused: Why a mutant need not be detected, or why a wrong solution costs so much; empty if
            there is no excuse.
        most: The most points that a wrong solution may earn; None for no such limit.
        until_one_fails: Whether one failed test is enough.
        twice: Whether to grade it again with a process for each test, which must change nothing.
        in_process: Whether the trial runs in the process of the tests, which is faster; allowed
            because the code is ours. A GPU needs the sandbox.
        sessions: Factories of the connections to a solution that runs in the process of the tests.
            They are tried in turn until a test fails.
        broken: Why there is no such submission; empty if there is one.
        with_public: Whether to run the problem's public tests on it, too.
        is_unread: Whether a stranger wrote it and nobody has read it. Whatever the other fields
            say, it runs in the sandbox only.
    """

    problem: Problem
    kind: str
    name: str
    sources: dict[str, bytes]
    device: str
    seed: int = 0
    neighbours: tuple[Problem, ...] = ()
    excused: str = ""
    most: float | None = None
    until_one_fails: bool = False
    twice: bool = False
    in_process: bool = False
    sessions: tuple[Opens, ...] = (LocalSession,)
    broken: str = ""
    with_public: bool = False
    is_unread: bool = False

    @property
    def runs_here(self) -> bool:
        """Whether the trial runs in the process of the tests."""
        return self.in_process and self.device == "cpu" and not self.is_unread


def validate(
    course: Course,
    problems: list[Problem],
    *,
    device: str = "cpu",
    gpu: Gpu | None = None,
    seeds: int = 1,
    with_mutants: bool = False,
    quick: bool = False,
    draft: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Matrix:
    """Grade every reference, stub, wrong solution and variant of these problems.

    Args:
        course: The course; its reference solutions, wrong solutions and variants are the grader's
            own.
        problems: The problems to check; those without tests for the device are left out.
        device: The device whose tests are run, "cpu" or "cuda". The CUDA tests of a CPU problem
            have to catch only the wrong solutions that no test on a CPU can detect.
        gpu: The GPU that the submissions get as their CUDA device.
        seeds: How many seeds the reference and the variants are graded with.
        with_mutants: Whether to try mutants of the reference too, on a CPU.
        quick: Try a sample of each kind, and stop wrong solutions at their first failed test. Tests
            then need not earn their place, and mistakes need not justify their cost.
        draft: Run our own code in the processes of the tests, without a sandbox, which is twice as
            fast. Trials that only a sandbox can judge, such as uninitialized memory, are left out.
        jobs: The number of processes, each with its own sandbox. On a CUDA device, only one process
            is used.
        progress: Called after each trial.

    Raises:
        UsageError: None of the problems has tests for the device.
    """
    courses.check_packages(course)
    import_libraries(course)
    files = {problem.id: course.hidden_tests(problem) for problem in problems}
    chosen = [problem for problem in problems if device in files[problem.id]]
    if not chosen:
        raise UsageError(f"--device {device}: none of these problems has tests for it")
    if wrong := list(whole.wrong_names(course)):
        return Matrix(whole=wrong)  # what is missing cannot be tried
    trials = [
        trial
        for problem in chosen
        for trial in trials_of(course, problem, seeds, with_mutants, device)
    ]
    if quick:
        trials = _sample(trials)
    elif device == "cpu":
        trials = [replace(t, with_public=t.kind in WITH_PUBLIC) for t in trials]
    if draft:
        trials = [replace(trial, in_process=True) for trial in trials if trial.kind != "unwritten"]
    matrix = Matrix(
        tests={}
        if quick
        else {problem.id: _tests(files[problem.id][device], device) for problem in chosen}
    )
    if device == "cpu":
        matrix.owed = sum(
            m.devices == ("cuda",)
            for problem in problems
            for m in mistakes.load(course.hidden, problem.id)
        )
    matrix.unread = sum(trial.is_unread for trial in trials)
    if device == "cpu" and not quick:
        matrix.claims = {problem.id: _claims(course, problem) for problem in chosen}
    matrix.declined = {problem.id: problem.declined for problem in chosen}
    matrix.green_may_lose = course.green_may_lose
    checks: list[tuple[str, Callable[[], Iterator[str]]]] = []
    if device == "cpu":
        checks.append(("refusals of public tests", lambda: public.unpromised(course, chosen)))
    checks.append(("points by harm", lambda: whole.light_harm(course, chosen)))
    if device == "cpu" and not quick:
        checks.append(("public tests", lambda: whole.public_tests(course, chosen)))
    if checks and not draft and problems == course.problems:
        checks.append(("the zip for Gradescope", lambda: whole.gradescope(course)))
    for name, check in checks:
        if progress:
            progress(name, 0, len(trials))
        matrix.whole += check()
        matrix.checked.append(name)
    jobs = 1 if device == "cuda" else min(jobs, len(trials))
    rows = _rows(trials, course, gpu, jobs, progress)
    matrix.rows = [_unless_declined(row, matrix.declined[row.problem]) for row in rows]
    if device == "cpu" and not quick and not draft:
        matrix.whole += _needlessly_declined(rows, matrix.declined)
    return matrix


def prices(
    course: Course, problems: list[Problem], *, jobs: int = 1, progress: Progress | None = None
) -> Matrix:
    """What known mistakes cost that pass all public tests; whether right solutions pass them.

    This is a part of `validate`, without a sandbox. Hidden tests are run on such mistakes alone.
    """
    courses.check_packages(course)
    import_libraries(course)
    matrix = Matrix(green_may_lose=course.green_may_lose, whole=list(whole.wrong_names(course)))
    if matrix.whole:
        return matrix
    trials = [
        replace(trial, neighbours=(), in_process=True, with_public=True)
        for problem in problems
        for trial in trials_of(course, problem, 1, False, "cpu")
        if trial.kind in WITH_PUBLIC
        and (trial.kind != "input" or trial.excused)
        and not trial.is_unread
    ]
    matrix.whole += public.unpromised(course, problems)
    matrix.checked.append("refusals of public tests")
    matrix.rows = _rows(trials, course, None, min(jobs, len(trials)), progress, _price)
    return matrix


def _unless_declined(row: Row, declined: dict[str, str]) -> Row:
    """The row, without its complaint if the problem declines the requirement with a reason."""
    reason = declined.get(f"{row.kind} {row.name}") or declined.get(row.kind)
    if not reason or not row.complaint or row.kind not in whole.DECLINABLE:
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
    trials: list[Trial],
    course: Course,
    gpu: Gpu | None,
    jobs: int,
    progress: Progress | None,
    task: Callable[[Trial], Row] | None = None,
) -> list[Row]:
    """The outcome of each trial by this task, by default `_run`, in the order of the trials."""
    rows: dict[int, Row] = {}
    needs_sandbox = gpu is not None or not all(trial.runs_here for trial in trials)
    isolation = levels.strongest() if needs_sandbox else None
    with Pool(course, jobs, gpu=gpu, isolation=isolation) as pool:
        ended: SimpleQueue[Future[Row]] = SimpleQueue()
        waiting = {pool.submit(ended, task or _run, trial): i for i, trial in enumerate(trials)}
        while waiting:
            try:
                future = ended.get(timeout=TICK_SECONDS)
            except Empty:
                if progress and gpu and (text := turns.waits(gpu)):
                    progress(text, len(rows), len(trials))
                continue
            i = waiting.pop(future)
            rows[i] = future.result()
            if progress:
                progress(f"{rows[i].problem} {rows[i].name}"[:60], len(rows), len(trials))
    return [rows[i] for i in sorted(rows)]


def _tests(file: Path, device: str) -> dict[str, HiddenTest]:
    """Map the id of each test in a file to the file's description of the test."""
    return {id_of_test(device, function): said for function, said in tests_in(file).items()}


def _sample(trials: list[Trial]) -> list[Trial]:
    """The trials of a quick run: every nth trial of each kind."""
    every = {
        "wrong": 12,
        "variant": 4,
        "junk": 40,
        "words": 5,
        "unchecked": 5,
        "types": 20,
        "arithmetic": 10,
        "unwritten": 5,
        "hostile": 60,
        "input": 40,
        "field": 20,
    }
    kinds = dict.fromkeys(trial.kind for trial in trials)
    kept = [
        trial
        for kind in kinds
        for trial in [t for t in trials if t.kind == kind][:: every.get(kind, 1)]
    ]
    return [
        replace(t, until_one_fails=True, neighbours=(), most=None, excused="-")
        if t.kind == "wrong"
        else replace(t, until_one_fails=t.until_one_fails or t.kind == "input")
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
        trial = Trial(
            problem,
            "variant",
            solution.name,
            sources,
            device,
            neighbours=touched,
            twice=device == "cpu" and number % ONE_IN == 0,
        )
        if isinstance(solution, Mistake):
            yield replace(
                trial,
                kind="wrong",
                excused=solution.price or "",
                most=solution.most,
                is_unread=solution.is_unread,
            )
        else:
            yield from (replace(trial, seed=seed) for seed in range(seeds))


def _trials_of_answers(
    course: Course, problem: Problem, device: str, reference: dict[str, bytes]
) -> Iterator[Trial]:
    """Yield a trial of each kind of wrong answer: made by rule, for a class of inputs, hostile."""
    module = course.reference_of(problem)
    for kind, name, changed in derived(problem, module):
        for seed in range(2 if kind == "unwritten" else 1):
            yield Trial(
                problem,
                kind,
                name,
                reference | changed,
                device,
                seed,
                in_process=kind != "unwritten",
            )
    promises = promised.load(course.promises, problem.id)
    if promises and device == "cpu":
        for one in promised.classes(problem, module):
            yield Trial(
                problem,
                "input",
                one.name,
                reference | wrong_for(problem, module, one),
                device,
                excused=promises.reason(one.name),
                in_process=True,
            )
    for which in hostile.values():
        for number in range(HOSTILE_ROUNDS):
            yield Trial(
                problem,
                "hostile",
                which,
                reference,
                device,
                number,
                in_process=True,
                sessions=(partial(hostile.HostileSession, which=which, round=number),),
            )


def _trials_of_fields(
    course: Course, problem: Problem, device: str, reference: dict[str, bytes]
) -> Iterator[Trial]:
    """Yield a trial of each field that a probe returns, in which the field has other values."""
    here = [course.hidden_tests(problem)["cpu"]] if device == "cpu" else []
    for probe, keys, changes in (f for file in here for f in fields.of(course.tests, file)):
        sessions = tuple(fields.ChangedField(probe, keys, change) for change in changes)
        yield Trial(
            problem,
            "field",
            sessions[0].name,
            reference,
            device,
            until_one_fails=not sessions[0].is_whole,
            in_process=True,
            sessions=sessions,
        )


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
            problem,
            "mutant",
            mutant.name,
            sources,
            device,
            excused=reason,
            until_one_fails=True,
        )


def _claims(course: Course, problem: Problem) -> Claims:
    """What a problem's file says of the claims of its stubs."""
    promises = promised.load(course.promises, problem.id)
    reference = course.reference_of(problem)
    known = mistakes.load(course.hidden, problem.id)
    said = sum(map(len, promised.sentences(problem, reference).values()))
    wrong = list(promised.unknown_sentences(problem, reference, known))
    if promises is None:
        tried = {(one.of, one.number) for mistake in known for one in mistake.contradicts}
        return Claims(said, len(tried), wrong)
    names = {m.name for m in known}
    names |= {one.name for one in promised.classes(problem, reference)}
    listed = [w for claims in promises.claims.values() for w in claims.values()]
    wrong += promised.complaints(problem, reference, promises, names)
    return Claims(said, sum(isinstance(w, list) for w in listed), wrong)


def to_catch(course: Course, problem: Problem, device: str) -> list[Mistake]:
    """The wrong solutions of a problem that its tests for a device must catch."""
    usual = ("cpu", "cuda") if problem.device == "cuda" else ("cpu",)
    known = mistakes.load(course.hidden, problem.id)
    known += mistakes.unread(course.hidden, problem.id)
    return [mistake for mistake in known if mistake.is_tried_on(device, usual)]


def right_solutions(course: Course, problem: Problem, device: str) -> list[Solution]:
    """The correct solutions of a problem in other styles, and those that known mistakes modify."""
    found = [
        *fragments.load(course.hidden, problem.id),
        *mistakes.bases(course.hidden, problem.id),
    ]
    return [f for f in found if f.is_tried_on(device, fragments.DEVICES)]


# --- in a process of its own ----------------------------------------------------------------------

_local: LocalBox | None = None


def _local_box() -> LocalBox:
    """The place in which this process runs our own code without a sandbox."""
    global _local
    if _local is None:
        _local = LocalBox()
        close_at_end(_local)
    return _local


def _run(trial: Trial) -> Row:
    """Grade one trial, including the problems in which it must lose nothing."""
    where = f"{trial.problem.id} · {trial.kind} {trial.name} (seed {trial.seed})"
    if trial.broken:
        complaint = f"{where}: {trial.broken}"
        points = trial.problem.points
        return Row(trial.problem.id, trial.kind, trial.name, trial.seed, 0, points, [], complaint)
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
        if _lost(result, trial.device) or fields.is_never_sent(session):
            break
    told = (
        public.first_failure(course, trial.problem, _local_box(), trial.sources)
        if trial.with_public and not trial.is_unread
        else None
    )
    complaint = _complaint(trial, result, graded) or _contradicted(trial, told)
    if trial.twice and not here and not complaint:
        complaint = differing(graded, graded_with(session, fresh=True))
    return Row(
        problem=trial.problem.id,
        kind=trial.kind,
        name=trial.name,
        seed=trial.seed,
        score=result.score,
        max_score=result.max_score - result.pending,
        failed=[test.id for test in _lost(result, trial.device)],
        share=_share(result, trial.device),
        reason=trial.excused,
        complaint=f"{where}: {complaint}" if complaint else "",
        price=_share(result, trial.device) * trial.problem.points,
        told=told,
    )


def _price(trial: Trial) -> Row:
    """Grade a trial if it is a known mistake that passes all public tests."""
    where = f"{trial.problem.id} · {trial.kind} {trial.name}"
    row = Row(
        trial.problem.id, trial.kind, trial.name, trial.seed, 0, 0, [], "", reason=trial.excused
    )
    if trial.broken:
        return replace(row, complaint=f"{where}: {trial.broken}")
    told = public.first_failure(own_course(), trial.problem, _local_box(), trial.sources)
    if trial.kind == "wrong" and not told:
        return replace(_run(replace(trial, with_public=False)), told="")
    complaint = _contradicted(trial, told)
    return replace(row, told=told, complaint=f"{where}: {complaint}" if complaint else "")


def _contradicted(trial: Trial, told: str | None) -> str:
    """What a public test refuses although no hidden test may, or an empty string."""
    if not told or trial.kind == "wrong" or (trial.kind == "input" and not trial.excused):
        return ""
    why = f"; it is listed as not promised ({trial.excused})" if trial.excused else ""
    return f"a public test refuses it{why}: {told}"


def _complaint(trial: Trial, result: ProblemResult, graded: SubmissionResult) -> str:
    """What differs from the required outcome, or an empty string."""
    if faults := graded.grader_errors:
        return f"a fault of the tests: {faults[0][1].said}"
    unusable = [t for t in _lost(result, trial.device) if t.what == UNUSABLE]
    if unusable and trial.kind not in ("hostile", "field"):
        facts = ", ".join(f"{fact.label} {fact.text}" for fact in unusable[0].facts)
        return f"{unusable[0].id} raises an exception of its own ({facts}); judge the answer first"
    others = [p.id for p in graded.problems if p.id != trial.problem.id and _lost(p, trial.device)]
    lost = _lost(result, trial.device)
    if trial.kind in RIGHT and lost:
        first = lost[0].id
        which = f"{len(lost)} tests fail, the first is {first}" if lost[1:] else f"{first} fails"
        return f"{which}: {lost[0].said}"
    attempted = [
        t for t in result.tests if t.device == trial.device and t.status is not Status.NOT_ATTEMPTED
    ]
    if trial.kind == "stub" and attempted:
        return f"{attempted[0].id} is {attempted[0].status}; a stub earns 0 as not_attempted"
    if trial.kind == "wrong" and not lost:
        return "it passes every test; a wrong solution has to be caught"
    if trial.kind == "wrong" and (status := worst([t.status for t in lost])) is not Status.FAILED:
        return f"its status is {status}: {lost[0].said}"
    if trial.kind == "input" and bool(lost) == bool(trial.excused):
        return (
            f"listed as not promised ({trial.excused}), but {lost[0].id} sends such an input"
            if lost
            else "no hidden test notices a wrong answer for such an input"
        )
    if blind := sorted(fields.blind_tests(trial.sessions[0], {test.id for test in lost})):
        return f"{blind[0]} passes without these answers; zip with strict=True, or count them"
    if trial.kind == "field" and not lost and not fields.is_never_sent(trial.sessions[0]):
        return "no test looks at this field; let one look at it, or let the probe not return it"
    if trial.most is not None and result.score > trial.most + 0.005:
        return f"it earns {result.score:.2f} points, and may earn at most {trial.most:g}"
    if trial.kind == "junk" and (
        passed := [t for t in _of_device(result, trial.device) if t.status is Status.PASSED]
    ):
        return (
            f"{', '.join(t.id for t in passed)} {'passes' if len(passed) == 1 else 'pass'} "
            "with this answer"
        )
    if trial.kind == "unchecked" and (share := _share(result, trial.device)) > MOST_OF_CHECKS:
        return (
            f"it loses {100 * share:.1f} %, more than {100 * MOST_OF_CHECKS:g}: "
            f"{', '.join(t.id for t in lost)}"
        )
    if trial.kind == "unwritten" and not any(
        TOLD_OF_EMPTY in fact.text for t in lost for fact in t.facts
    ):
        return "no test reports that uninitialized memory was read"
    if trial.kind == "mutant" and not lost and not trial.excused:
        return (
            f"no test notices it; write one, or list it in {own_course().mutants} "
            "with the reason why none can"
        )
    if trial.kind == "mutant" and lost and trial.excused:
        return f"it is listed as equivalent, but {lost[0].id} notices it"
    if others:
        return f"it fails tests of {', '.join(others)} as well"
    return ""


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


def _of_device(problem: ProblemResult, device: str) -> list[TestResult]:
    return [test for test in problem.tests if test.device == device]


def _lost(problem: ProblemResult, device: str) -> list[TestResult]:
    """The tests for this device that did not pass."""
    return [test for test in _of_device(problem, device) if test.status is not Status.PASSED]


def _share(problem: ProblemResult, device: str) -> float:
    """The share of a problem that was lost, by the weights of its tests for this device."""
    whole = sum(test.weight for test in _of_device(problem, device))
    return sum(test.weight for test in _lost(problem, device)) / whole if whole else 0.0
