"""What a grade leaves in its process: no settings of our own solutions, and no submission."""

import gc
import sys
import weakref
from itertools import cycle

import numpy as np
import pytest
import torch

from grader.course import courses
from grader.course.courses import sources_in
from grader.grading import free_memory, local_student, sandboxed_student
from grader.grading.grade import grade
from grader.grading.undo_settings import restored
from grader.report import json_report
from grader.report.report_contents import Reported
from grader.sandbox import levels
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from grader.solutions import known_mistakes
from grader.submission.submissions import Submission
from grader.wire.protocol import FrameReader
from grader.worker import leftovers
from tests.grader.compared_results import without_seconds
from tests.grader.in_the_sandbox import warm
from tests.grader.sampling import every

COURSE = courses.load()
REFERENCE = sources_in(COURSE.reference)
# pytest changes the other entries by itself.
COMPARED = ("garbage collector", "limits", "locale", "numpy", "python", "torch")


def surroundings():
    """The state of this process that a result may depend on."""
    now = leftovers.surroundings()
    return {name: now[name] for name in COMPARED}


class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    """A dispatch mode that runs each operator."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


CHANGES = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "anomaly mode": lambda: torch.set_anomaly_enabled(True),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "precision of products": lambda: torch.set_float32_matmul_precision("medium"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16).__enter__(),
    "autocast with another dtype": lambda: torch.autocast("cpu", dtype=torch.float16).__enter__(),
    "autocast without a cache": lambda: torch.autocast("cpu", cache_enabled=False).__enter__(),
    "autocast on another device": lambda: torch.set_autocast_enabled("cuda", True),
    "dispatch mode": lambda: Mode().__enter__(),
    "numpy's errors": lambda: np.seterr(all="raise"),
    "garbage collector": gc.disable,
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_solution_changes_ends_with_its_call(name, box):
    before, nesting = surroundings(), torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    changed = []

    def probe(student):
        CHANGES[name]()
        changed.append(surroundings() != before)
        return 8

    session = local_student.LocalSession(box, {"assignment/m.py": b""}, seed=0)
    assert session.run(probe, {}) == 8
    assert changed == [True]
    assert surroundings() == before
    assert torch.autocast_increment_nesting() == nesting
    torch.autocast_decrement_nesting()


def test_an_exit_too_many_is_undone():
    """The depth of autocast blocks is also restored if a solution has left more than it entered."""
    before = torch.autocast_increment_nesting()
    with restored():
        torch.autocast_decrement_nesting()
        torch.autocast_decrement_nesting()
    assert torch.autocast_decrement_nesting() == before - 1


@pytest.fixture
def files_may_stay_open(monkeypatch):
    """Ignore what Python says about the files that a wrong solution leaves open."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    yield
    gc.collect()


@pytest.mark.slow
@pytest.mark.usefixtures("files_may_stay_open")
@pytest.mark.parametrize("problem", every(8, COURSE.problems[::-1]), ids=lambda p: p.id)
@pytest.mark.parametrize(
    "one_in", [6, pytest.param(1, marks=pytest.mark.proof)], ids=["a sample", "all"]
)
def test_no_known_mistake_changes_this_process(problem, one_in, box):
    options = {"problems": [problem], "explain": False, "session": local_student.LocalSession}

    def graded(sources):
        grade(Submission("one", sources, []), COURSE, box, **options)

    graded(REFERENCE)
    before = surroundings()
    module = REFERENCE[problem.path].decode()
    known = known_mistakes.load(COURSE.hidden, problem.id)
    for mistake in [m for m in known if m.is_tried_on("cpu", ("cpu",))][::one_in]:
        graded(REFERENCE | {problem.path: mistake.applied_to(module).encode()})
        assert surroundings() == before, mistake.name


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.usefixtures("files_may_stay_open")
def test_the_order_of_submissions_changes_nothing():
    submissions = [Submission("right", REFERENCE, [])]
    for number in range(4):
        sources = dict(REFERENCE)
        for path in sources:
            problems = [p for p in COURSE.problems if p.path == path]
            known = known_mistakes.load(COURSE.hidden, problems[number % len(problems)].id)
            mistake = known[(7 * number) % len(known)]
            sources[path] = mistake.applied_to(sources[path].decode()).encode()
        submissions.append(Submission(f"wrong {number}", sources, []))
    results = {}
    with Sandbox.of(COURSE, isolation=levels.strongest()) as sandbox:
        for submission in [*submissions, *reversed(submissions)]:
            got = without_seconds(json_report.render(Reported(grade(submission, COURSE, sandbox))))
            assert got == results.setdefault(submission.name, got)
    assert len(set(results.values())) == len(submissions)


# --- a process that grades many submissions keeps nothing of those before -------------------------


IDS = ("storage_views", "lr_schedule")
# Answers that are wrong in odd ways, so that tests fail in odd ways too.
ODD = ["torch.ones(2000)", "[[(1, {'a': torch.ones(3)})]] * 100", "{}['x']", "object()"]


@warm
def test_nothing_of_earlier_submissions_is_left_when_a_grade_begins(sandbox, monkeypatch):
    """Students, sessions and frames of answers are freed, although solutions were loaded."""
    monkeypatch.setattr(sys.modules[grade.__module__], "free_memory", free_memory)
    seen = []

    def watched(kind):
        make = kind.__init__

        def __init__(self, *args, **kwargs):
            make(self, *args, **kwargs)
            seen.append(weakref.ref(self))

        monkeypatch.setattr(kind, "__init__", __init__)

    for kind in (sandboxed_student.RemoteStudent, Session, FrameReader, Submission):
        watched(kind)
    problems = [COURSE.problem(name) for name in IDS]
    for answers in (ODD[:2], ODD[2:]):  # the functions of a submission give them in turns
        sources = {}
        for problem in problems:
            pairs = zip(problem.functions, cycle(answers), strict=False)
            lines = ["import torch", *(f"def {f}(*a, **k): return {a}" for f, a in pairs)]
            sources[problem.path] = "\n".join(lines).encode()
        result = grade(Submission("odd", sources, []), COURSE, sandbox, problems=problems)
        assert result.score < result.max_score
        assert len(seen) > 50
        del result, sources
        gc.disable()  # as rarely as in the grader's process
        try:
            free_memory.collect()
            left = [type(found).__name__ for one in seen if (found := one()) is not None]
            assert left == []
        finally:
            gc.enable()
        seen.clear()
