"""How you are graded: limits, sizes, points, statuses and the form of a report, from the grader itself."""

import math
import re
import tomllib

import torch
from torch import nn

from grader import archives, matrix
from grader import submission as sub
from grader.errors import Status
from grader.grading import budget
from grader.reference import optimizers as op
from grader.report import terminal
from grader.results import GraderInfo, Outcome, SubmissionInfo, SubmissionResult, problem_result, worst
from grader.sandbox import bubblewrap
from grader.worker import zygote
from tests import expect
from tests.handout.claims import COURSE, HANDOUT, Claims, n, section
from tests.probes import delegation
from tests.student_side import submit

SOURCES = {"assignment/linear.py": b"x = 1\n"}


def result(problems):
    """A result of these problems, for the terminal's report."""
    info = sub.Submission("you", SOURCES, []).info
    assert isinstance(info, SubmissionInfo)
    grader = GraderInfo(version="1", suite_sha256=64 * "0", device="cpu", isolation="bubblewrap", seed=0)
    score = sum(problem.score for problem in problems)
    return SubmissionResult(submission=info, grader=grader, score=score, max_score=100.0, seconds=1.0, problems=problems)


def one_step(inside):
    """The reference's parameter after a step, and that of ε inside the root: lr 0.1, no decay, ε 0.01, a gradient of 0.1."""
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.full_like(p, 0.1)
    op.AdamW([p], lr=0.1, eps=0.01, weight_decay=0.0).step()
    return torch.tensor([1 - 0.1 * 0.1 / math.sqrt(0.1**2 + 0.01)]) if inside else p.detach()


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("grading.md")
        self.zip()
        self.limits()
        self.points()
        self.two_runs()
        self.statuses()
        self.report()
        self.rules()
        self.versions()

    def zip(self) -> None:
        """What a submission may be."""
        self.says(
            f"more than {n(archives.MAX_SOURCE_BYTES >> 20)} MiB or {n(sub.MAX_SOURCES)} files of Python, more than {n(archives.MAX_ENTRIES, ',')} entries, "
            f"more than {n(archives.MAX_ARCHIVE_BYTES >> 20)} MiB."
        )
        assert submit.MAX_BYTES < archives.MAX_SOURCE_BYTES
        assert submit.sha256(SOURCES) == sub.Submission("you", SOURCES, []).sha256
        shown = re.search(r"sources (\w+) ·", terminal.render(result([]), sections={}))[1]
        assert submit.sha256(SOURCES).startswith(shown)
        self.says(f"`submit` shows its first {n(len(shown))} characters, and so does the report, in its line `sources`.")
        ours = "Of `assignment/__init__.py`, `__main__.py` and `problems.toml` the course's own are used, and no `conftest.py` is taken."
        assert [f"assignment/{name.removeprefix('assignment/')}" for name in re.findall(r"`(.+?)`", ours)[:3]] == list(sub.OURS)
        self.says(ours)

    def limits(self) -> None:
        """What a test may use."""
        assert bubblewrap.PACKAGES == ("torch", "numpy", "einops", "jaxtyping")
        usual, longer = COURSE.limits, COURSE.limits_of(COURSE.problem("training_loop"))
        for problem in COURSE.problems:
            limits = COURSE.limits_of(problem)
            assert limits.wall_seconds == 4 * limits.cpu_seconds
            assert limits == (longer if problem.id == "training_loop" or problem.module == "gpu" else usual)
            assert limits.memory_bytes == usual.memory_bytes
        self.says(
            f"| processor time | {n(usual.cpu_seconds, '.0f')} s; {n(longer.cpu_seconds, '.0f')} s in `training_loop` and "
            f"in the problems of chapter {section('GPUs')} |",
            f"| time by the clock | {n(f'{usual.wall_seconds / usual.cpu_seconds:g}')} times as much |",
            f"| memory | {n(usual.memory_bytes >> 30)} GiB more than an idle process |",
            f"| memory of the GPU, in a run on one | {n(usual.device_memory_bytes >> 30)} GiB beside what CUDA takes for itself |",
            f"| processes and threads | {n(usual.processes)} |",
            f"| files | {n(usual.file_bytes >> 20)} MiB together, {n(zygote.MAX_FILES, ',')} of them |",
        )
        total = sum(problem.points for problem in COURSE.problems)
        points = 5
        share = usual.submission_seconds * points / total
        assert share / usual.cpu_seconds == 3  # "three endless loops"
        self.says(
            f"All tests of a run together have {n(usual.submission_seconds, '.0f')} s of processor time, each problem the share of its points: "
            f"with {n(points)} points of {n(total)}, that is {n(share, '.0f')} s"
        )
        self.says(
            f"Each of its tests may take {n(budget.STARTING_SECONDS['cuda'])} s longer, because CUDA starts anew in its process."
        )
        by_cpu, by_gpu = (sum(p.points for p in COURSE.problems if p.device == device) for device in ("cpu", "cuda"))
        assert {p.module for p in COURSE.problems if p.device == "cuda"} == {"gpu"}
        chapter = section("GPUs")
        self.says(
            f"All problems together are worth {n(total)} points: {n(by_cpu)} by tests that run on a CPU, and {n(by_gpu)}, those of "
            f"[chapter {chapter}]({chapter}_gpu.md), by tests that run on a GPU.",
            f"- **The problems of chapter {chapter}** have",
            f"a problem of chapter {chapter} is `deferred` where",
            f"in chapter {chapter} nothing yet, as long as there",
            f"can give all of {n(by_cpu)} points.",
            f"is what deferred tests are worth: {n(by_gpu)} points where",
        )

    def points(self) -> None:
        """Partial credit."""
        tests = [
            Outcome(id=f"test_{i}", weight=2 if i == 0 else 1, status=Status.FAILED if i == 1 else Status.PASSED)
            for i in range(4)
        ]
        problem = problem_result("linear", "linear", 5, tests)
        heavy, light, *_ = (test.max_score for test in problem.tests)
        weights = sum(test.weight for test in tests)
        self.says(
            f"A problem of {n(problem.max_score, '.0f')} points has {n(len(tests))} tests, one of weight {n(tests[0].weight)}. Its share is "
            f"{n(tests[0].weight)} · {n(problem.max_score, '.0f')} / {n(weights)} = {n(heavy, '.0f')} points, that of the others {n(light, '.0f')}. "
            f"If one of the others fails, you have {n(problem.score, '.0f')} of {n(problem.max_score, '.0f')}."
        )
        stub = problem_result("linear", "linear", 5, [Outcome(id="test", weight=1, status=Status.NOT_ATTEMPTED)])
        self.says(
            f"A stub earns {n(stub.score, '.0f')}.",
            "sizes with " + n(0) + " and " + n(1) + " among them",
            f"sizes of {n(1)}, a transposed view",
        )

    def two_runs(self) -> None:
        """A problem with tests on both devices, and one of chapter 13."""

        def tests(on_cpu, on_gpu):
            ended = {"cpu": on_cpu, "cuda": on_gpu}
            return [
                Outcome(id=f"{device}/test_{i}", device=device, weight=1, status=status)
                for device, statuses in ended.items()
                for i, status in enumerate(statuses)
            ]

        failed_one, both, points = [Status.FAILED, *[Status.PASSED] * 3], [Status.PASSED] * 2, 6
        before = problem_result("linear", "linear", points, tests(failed_one, [Status.DEFERRED] * 2))
        after = problem_result("linear", "linear", points, tests(failed_one, both))
        here, there = len(failed_one), len(both)
        assert before.pending == after.pending == 0
        early, late = before.tests[0].max_score, after.tests[-1].max_score
        self.says(
            f"A problem of {n(points)} points has {n(here)} tests on a CPU and {n(there)} on a GPU, all of the same weight. One of the {n(here)} fails, all others pass. "
            f"After the run on a CPU each of its {n(here)} tests is worth {n(points)} / {n(here)} = {n(early)} points, and you have {n(before.score)} of {n(points)}. "
            f"With the run on a GPU each of {n(here + there)} tests is worth {n(late, '.0f')}, and you have {n(after.score, '.0f')} of {n(points)}."
        )
        gpu = problem_result("gpu_memory", "gpu", 5, tests([Status.PASSED], both), "cuda")
        assert [test.max_score for test in gpu.tests] == [0, 2.5, 2.5]
        waiting = problem_result("gpu_memory", "gpu", 5, tests([Status.PASSED], [Status.DEFERRED]), "cuda")
        assert (waiting.status, waiting.pending) == (Status.DEFERRED, 5)
        wrong = problem_result("gpu_memory", "gpu", 5, tests([Status.FAILED], [Status.DEFERRED]), "cuda")
        assert (wrong.status, wrong.pending) == (Status.FAILED, 5)
        report = terminal.render(result([wrong]), sections={})
        assert "5 points are pending" in report
        assert re.search(r"lost +nothing yet", report)
        needs_gpu = {p.id for p in COURSE.problems if p.device == "cpu" and "cuda" in COURSE.hidden_tests(p)}
        assert "checkpoint" in needs_gpu  # "for instance"

    def statuses(self) -> None:
        """The table has each status once."""
        page = (HANDOUT / self.page).read_text(encoding="utf-8")
        assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [status.value for status in Status]
        assert worst(list(Status)) is Status.GRADER_ERROR
        ours = problem_result("linear", "linear", 5, [Outcome(id="test", weight=1, status=Status.GRADER_ERROR)])
        assert "this score is not final" in terminal.render(result([ours]), sections={"linear": "7.1"})

    def report(self) -> None:
        """An excerpt, as the terminal's report writes it."""
        try:
            expect.tensor(one_step(inside=True), one_step(inside=False), of="AdamW", atol=1e-6, name="a parameter after step 1")
        except expect.Mismatch as e:
            section = COURSE.problem("adamw").section
            message = expect.render(e, problem="adamw", section=section, private=True)
        said = {
            "status": Status.FAILED,
            "message": message,
            "mistake": "ε stands inside the square root.",
            "hint": "where does ε stand?",
        }
        rules = ["Three steps agree with the formula.", "ε is added after the root is taken."]
        failed = [Outcome(id=f"test_of_this_page_{i}", weight=1, rule=rule, **said) for i, rule in enumerate(rules)]
        rest = [Outcome(id=f"test_{i}", weight=1, status=Status.PASSED) for i in range(18)]
        points = problem_result("adamw", "optimizers", 20, [*failed, *rest])
        text = terminal.render(result([points]), sections={"adamw": section})
        start = text.index("adamw · AdamW")
        self.says(n(text[start : text.index("\n\n", start)]))
        self.says(f"keeps to about {n(terminal.MAX_LINES)} lines")
        self.says(f"together are worth at most {n(f'{matrix.MOST_FOR_CHECKS:g}')} points of the course")

    def rules(self) -> None:
        """What is forbidden where."""
        assert [problem.id for problem in COURSE.problems if problem.forbidden_in] == ["autograd"]
        assert not COURSE.problem("training_loop").forbidden
        assert delegation.RUNS_TEXT == ("exec", "eval", "compile", "__import__")

    def versions(self) -> None:
        """Which Python and torch."""
        needs = tomllib.loads((HANDOUT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        python = needs["requires-python"].removeprefix(">=")
        oldest = next(line.removeprefix("torch>=") for line in needs["dependencies"] if line.startswith("torch>="))
        self.says(f"Python {n(python)} or later and torch {n(oldest)} or later grade you")
