"""The suite's own proof: a test suite is a program and has to be tested.

For each problem: the reference passes every test with every seed, the stub has every test `not_attempted`, each wrong solution
fails one in its problem and none in another of its module, each variant passes every test, each hidden test catches something;
and, where asked for, a hidden test notices each mutant of the reference that is not listed as equivalent. What `trials` makes
of the reference shows that the suite is total: no test passes for a constant or fails for one with an exception of its own,
and other words, types and arithmetic cost nothing.

All of this is about the tests for one device, and goes by how they end and not by points: the tests that a CUDA problem has for
a CPU are worth none.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.util import Finalize
from pathlib import Path
from typing import cast

from grader import interrupts
from grader.course import Course, Problem, id_of_test
from grader.errors import Status, UsageError
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.proof import mutants, trials
from grader.proof.matrix import HiddenTest, Matrix, Row, tests_in
from grader.results.records import ProblemResult, SubmissionResult, TestResult, worst
from grader.sandbox.box import Sandbox
from grader.sandbox.gpu import Gpu
from grader.sandbox.session import Session
from grader.solutions import fragments, mistakes
from grader.solutions.fragments import Solution
from grader.solutions.mistakes import Mistake
from grader.submission import Submission

MOST_OF_CHECKS = 0.05  # of a problem's points, for all checks of arguments together
RIGHT = ("reference", "variant", "words", "types", "arithmetic")  # kinds that lose nothing
TOLD_OF_EMPTY = "torch.empty"  # what somebody is told whose answer is memory that nobody wrote
FROM_TERMINALS = (signal.SIGINT, signal.SIGHUP)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Trial:
    """One submission to be graded, and what must come out of it for its problem.

    Attributes:
        problem: The problem.
        kind: One of `matrix.KINDS`.
        name: Which one of that kind.
        sources: The submission.
        device: The device whose tests it is about.
        seed: The seed to grade it with.
        neighbours: Other problems that it must cost nothing.
        excused: Why a mutant need not be noticed, or why a wrong solution costs so much; empty where it has to be, or may not.
        most: How many points a wrong solution may have; None where nothing is said.
        until_one_fails: Whether one failed test is all that is asked of it.
        in_process: Whether it runs in the process of the tests: it is ours, and quicker there. A GPU needs the sandbox.
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
    in_process: bool = False


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
        course: The course; its reference solutions, wrong ones and variants are the grader's own.
        problems: Which problems; those without tests for the device are left out.
        device: "cpu" or "cuda": whose tests. Those that a CPU problem has for a CUDA device have to catch only the wrong
            solutions that no test on a CPU can notice.
        gpu: What the submissions are given as their CUDA device.
        seeds: How many seeds the reference and the variants are graded with.
        with_mutants: Whether mutants of the reference are tried as well, on a CPU.
        quick: Try a sample of each kind, and leave wrong solutions after their first failed test: no test is asked to earn its
            place, and no mistake its price.
        draft: Run everything in the processes of the tests, without a sandbox, many times as fast. What is seen only there, as
            memory that nobody wrote, is left out.
        jobs: How many processes, each with a sandbox of its own. A CUDA device is given to one.
        progress: Called after each trial.

    Raises:
        UsageError: None of the problems has tests for the device.
    """
    files = {problem.id: course.hidden_tests(problem) for problem in problems}
    chosen = [problem for problem in problems if device in files[problem.id]]
    if not chosen:
        raise UsageError(f"--device {device}: none of these problems has tests for it")
    trials = [
        trial
        for problem in chosen
        for trial in trials_of(course, problem, seeds, with_mutants, device)
    ]
    if quick:
        trials = _sample(trials)
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
            for m in mistakes.load(course.mistakes, problem.id)
        )
    jobs = 1 if device == "cuda" else min(jobs, len(trials))
    matrix.rows = _rows(trials, course, gpu, jobs, progress)
    return matrix


def _rows(
    trials: list[Trial], course: Course, gpu: Gpu | None, jobs: int, progress: Progress | None
) -> list[Row]:
    """What comes out of each trial, in their order."""
    rows: dict[int, Row] = {}
    context = multiprocessing.get_context(
        "spawn"
    )  # a fork of a process with threads may hang in its first matmul
    with ProcessPoolExecutor(jobs, context, _start, (course, gpu)) as pool:
        try:
            with _deaf_children():
                waiting: dict[Future[Row], int] = {
                    pool.submit(_run, trial): i for i, trial in enumerate(trials)
                }
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    i = waiting.pop(future)
                    rows[i] = future.result()
                    if progress:
                        progress(f"{rows[i].problem} {rows[i].name}"[:60], len(rows), len(trials))
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return [rows[i] for i in sorted(rows)]


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started inside do not hear Ctrl-C, which a terminal sends to all: the parent ends them.

    The parent hears it afterwards, when the pool knows all of them.
    """
    with interrupts.held():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_TERMINALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tests(file: Path, device: str) -> dict[str, HiddenTest]:
    """The tests of a file by their id in results, with what the file says of each."""
    return {id_of_test(device, function): said for function, said in tests_in(file).items()}


def _sample(trials: list[Trial]) -> list[Trial]:
    """The trials of a quick run: of each kind every so many."""
    every = {
        "wrong": 12,
        "variant": 4,
        "junk": 40,
        "words": 5,
        "unchecked": 5,
        "types": 20,
        "arithmetic": 10,
        "unwritten": 5,
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
        else t
        for t in kept
    ]


def trials_of(
    course: Course, problem: Problem, seeds: int, with_mutants: bool, device: str
) -> Iterator[Trial]:
    """Everything that a problem's tests for a device are tried on."""
    reference = sources_in(course.reference)
    module = reference[problem.path].decode()
    for seed in range(seeds):
        yield Trial(problem, "reference", "reference", reference, device, seed)
    yield Trial(problem, "stub", "stub", sources_in(course.assignment), device)
    neighbours = tuple(p for p in course.problems if p.module == problem.module and p != problem)
    for solution in [*_to_catch(course, problem, device), *_variants(course, problem, device)]:
        sources = reference | {problem.path: solution.applied_to(module).encode()}
        touched = tuple(p for p in neighbours if solution.reaches(p.functions, module))
        trial = Trial(problem, "variant", solution.name, sources, device, neighbours=touched)
        if isinstance(solution, Mistake):
            yield replace(trial, kind="wrong", excused=solution.price or "", most=solution.most)
        else:
            yield from (replace(trial, seed=seed) for seed in range(seeds))
    for kind, name, changed in trials.of(problem, module):
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
    if with_mutants:
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


def _to_catch(course: Course, problem: Problem, device: str) -> list[Mistake]:
    """The wrong solutions of a problem that its tests for a device have to catch."""
    usual = ("cpu", "cuda") if problem.device == "cuda" else ("cpu",)
    return [m for m in mistakes.load(course.mistakes, problem.id) if m.is_tried_on(device, usual)]


def _variants(course: Course, problem: Problem, device: str) -> list[Solution]:
    """The right solutions of a problem in other styles, and those that mistakes are made in."""
    found = [
        *fragments.load(course.variants, problem.id),
        *mistakes.bases(course.mistakes, problem.id),
    ]
    return [f for f in found if f.is_tried_on(device, fragments.DEVICES)]


def sources_in(folder: Path) -> dict[str, bytes]:
    """The modules in a folder as a submission would hold them."""
    return {
        f"assignment/{path.name}": path.read_bytes() for path in sorted(folder.glob("[!_]*.py"))
    }


# --- in a process of its own --------------------------------------------------------------------------------------------

_place: tuple[Course, Sandbox, LocalBox] | None = None


def _start(course: Course, gpu: Gpu | None) -> None:
    """Start this process's sandbox, which serves all of its trials."""
    global _place
    for number in FROM_TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FROM_TERMINALS)
    import torch

    torch.set_num_threads(1)
    sandbox = Sandbox(
        course.tests, isolation="bubblewrap", scratch_bytes=course.limits.file_bytes, gpu=gpu
    )
    boxes = sandbox, LocalBox()
    Finalize(None, sandbox.close, exitpriority=1)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_leave, args=boxes).start())
    threading.Thread(target=_end_with_the_parent, args=boxes, daemon=True).start()
    _place = course, *boxes


def _end_with_the_parent(*boxes: Sandbox | LocalBox) -> None:
    """A pool's process waits for work for ever, also where nobody is left to give it any."""
    if parent := multiprocessing.parent_process():
        parent.join()
        _leave(*boxes)


def _leave(*boxes: Sandbox | LocalBox) -> None:
    """End the boxes and this process; in a thread, because the main one may be waiting for the box, with a lock."""
    for box in boxes:
        box.close()
    os._exit(1)


def _run(trial: Trial) -> Row:
    """Grade one trial, also on the problems that it must cost nothing."""
    assert _place is not None
    course, sandbox, local = _place
    here = trial.in_process and sandbox.gpu is None
    graded = grade(
        Submission(trial.name, trial.sources, []),
        course,
        cast(Sandbox, local) if here else sandbox,
        problems=[trial.problem, *trial.neighbours],
        device=trial.device,
        seed=trial.seed,
        explain=False,
        until_one_fails=trial.until_one_fails,
        session=LocalSession if here else Session,
    )
    result = next(p for p in graded.problems if p.id == trial.problem.id)
    complaint = _complaint(trial, result, graded)
    where = f"{trial.problem.id} · {trial.kind} {trial.name} (seed {trial.seed})"
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
    )


def _complaint(trial: Trial, result: ProblemResult, graded: SubmissionResult) -> str:
    """What is not as it must be, or an empty string."""
    faults = [t for p in graded.problems for t in p.tests if t.status is Status.GRADER_ERROR]
    if faults:
        return f"a fault of the tests: {faults[0].said}"
    others = [p.id for p in graded.problems if p.id != trial.problem.id and _lost(p, trial.device)]
    lost = _lost(result, trial.device)
    if trial.kind in RIGHT and lost:
        return f"{len(lost)} tests fail, the first is {lost[0].id}: {lost[0].said}"
    attempted = [
        t for t in result.tests if t.device == trial.device and t.status is not Status.NOT_ATTEMPTED
    ]
    if trial.kind == "stub" and attempted:
        return f"{attempted[0].id} is {attempted[0].status}; a stub earns 0 as not_attempted"
    if trial.kind == "wrong" and not lost:
        return "it passes every test; a wrong solution has to be caught"
    if trial.kind == "wrong" and (status := worst([t.status for t in lost])) is not Status.FAILED:
        return f"its status is {status}: {lost[0].said}"
    if trial.most is not None and result.score > trial.most + 0.005:
        return f"it earns {result.score:.2f} points, and deserves at most {trial.most:g}"
    if trial.kind == "junk" and (
        passed := [t for t in _of_device(result, trial.device) if t.status is Status.PASSED]
    ):
        return (
            f"{', '.join(t.id for t in passed)} {'passes' if len(passed) == 1 else 'pass'} for it"
        )
    if trial.kind == "unchecked" and (share := _share(result, trial.device)) > MOST_OF_CHECKS:
        return f"it loses {100 * share:.1f} %, more than {100 * MOST_OF_CHECKS:g}: {', '.join(t.id for t in lost)}"
    if trial.kind == "unwritten" and not any(
        TOLD_OF_EMPTY in fact.text for t in lost for fact in t.facts
    ):
        return "no test tells that memory was read which nobody wrote"
    if trial.kind == "mutant" and not lost and not trial.excused:
        return "no test notices it; write one, or list it in grader/solutions/mutants.toml with the reason why none can"
    if trial.kind == "mutant" and lost and trial.excused:
        return f"it is listed as equivalent, but {lost[0].id} notices it"
    if others:
        return f"it fails tests of {', '.join(others)} as well"
    return ""


def _of_device(problem: ProblemResult, device: str) -> list[TestResult]:
    return [test for test in problem.tests if test.device == device]


def _lost(problem: ProblemResult, device: str) -> list[TestResult]:
    """The tests for this device that did not pass."""
    return [test for test in _of_device(problem, device) if test.status is not Status.PASSED]


def _share(problem: ProblemResult, device: str) -> float:
    """How much of a problem was lost, by the weights of its tests for this device."""
    whole = sum(test.weight for test in _of_device(problem, device))
    return sum(test.weight for test in _lost(problem, device)) / whole if whole else 0.0


def usual_jobs() -> int:
    """As many processes as there are processors to run them."""
    return len(os.sched_getaffinity(0))
