"""The page on grading: limits, sizes, points, statuses and a report, from the grader itself."""

import math
import re
import tomllib

import torch
from torch import nn

import kit
from grader.base.errors import Status
from grader.grading import sandboxed_student
from grader.grading.verdict import verdict_on
from grader.report import terminal_report
from grader.report.report_contents import Reported
from grader.results.points import ALL_MINOR, EACH_MINOR, HARM, problem_result
from grader.results.result_records import (
    GraderInfo,
    Outcome,
    SubmissionInfo,
    SubmissionResult,
    worst,
)
from grader.solutions.reference import optimizers as op
from grader.submission import archives, submissions
from grader.wire import protocol
from grader.worker import zygote
from kit import expect, forbidden_in_source, handing_in
from tests.handout.page_figures import COURSE, HANDOUT, Figures, n

SOURCES = {"assignment/linear.py": b"x = 1\n"}


def result(problems):
    """A result of these problems, for the terminal's report."""
    info = submissions.Submission("you", SOURCES, []).info
    assert isinstance(info, SubmissionInfo)
    grader = GraderInfo(
        version="1", suite_sha256=64 * "0", device="cpu", isolation="bubblewrap", seed=0
    )
    score = sum(problem.score for problem in problems)
    return SubmissionResult(
        submission=info, grader=grader, score=score, max_score=100.0, seconds=1.0, problems=problems
    )


def one_step(inside):
    """The parameter after one step of the reference, and after a step with ε inside the root.

    The learning rate is 0.1, the decay 0, ε 0.01 and the gradient 0.1.
    """
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.full_like(p, 0.1)
    op.AdamW([p], lr=0.1, eps=0.01, weight_decay=0.0).step()
    return torch.tensor([1 - 0.1 * 0.1 / math.sqrt(0.1**2 + 0.01)]) if inside else p.detach()


class Chapter(Figures):
    def zip(self) -> None:
        self.gives(max_mib=handing_in.MAX_BYTES >> 20, max_files=handing_in.MAX_FILES)
        self.gives(max_entries=archives.MAX_ENTRIES)
        self.gives(max_archive_mib=archives.MAX_ARCHIVE_BYTES >> 20, max_name=handing_in.MAX_NAME)
        self.gives(max_folders=handing_in.MAX_FOLDERS)
        shown = re.search(r"sources (\w+) ·", terminal_report.render(Reported(result([]))))[1]
        assert handing_in.sha256(SOURCES).startswith(shown)
        self.gives(shown_hash=len(shown))
        first, *others, last = (name.removeprefix("assignment/") for name in handing_in.THE_COURSES)
        self.gives(
            ours=f"`assignment/{first}`, {', '.join(f'`{name}`' for name in others)} and `{last}`"
        )

    def limits(self) -> None:
        assert kit.USUAL_PACKAGES == ("torch", "numpy", "einops", "jaxtyping")
        usual, longer = COURSE.limits, COURSE.limits_of(COURSE.problem("training_loop"))
        for problem in COURSE.problems:
            limits = COURSE.limits_of(problem)
            assert limits.wall_seconds == 4 * limits.cpu_seconds
            assert limits == (
                longer if problem.id == "training_loop" or problem.module == "gpu" else usual
            )
            assert limits.memory_bytes == usual.memory_bytes
        self.gives(cpu_seconds=usual.cpu_seconds, long_cpu_seconds=longer.cpu_seconds)
        self.gives(clock_factor=usual.wall_seconds / usual.cpu_seconds)
        self.gives(memory_gib=usual.memory_bytes >> 30, gpu_gib=usual.device_memory_bytes >> 30)
        self.gives(processes=usual.processes, answers_mib=protocol.MAX_ANSWER_BYTES >> 20)
        self.gives(files_mib=usual.file_bytes >> 20, files=zygote.MAX_FILES)
        share = usual.submission_seconds / 20  # "a twentieth"
        assert share // usual.cpu_seconds == 3  # "three endless loops"
        self.gives(all_seconds=usual.submission_seconds, example_seconds=share)
        assert sandboxed_student.SPARE_SHARE == 0.1  # "a tenth"
        self.gives(cuda_start_seconds=sandboxed_student.STARTING_SECONDS["cuda"])
        for problem in COURSE.problems:  # "those of chapter 13"
            assert (problem.device == "cuda") == (problem.module == "gpu")

    def points(self) -> None:
        worse, number, crash, *minor = HARM.values()
        assert not any(minor)
        self.gives(worse_weight=worse, number_weight=number, crash_weight=crash)
        self.gives(each_minor=100 // EACH_MINOR, all_minor=100 // ALL_MINOR)
        ended = [(2, Status.PASSED), (1, Status.FAILED), (1, Status.PASSED), (1, Status.PASSED)]
        tests = [Outcome(id=f"test_{i}", weight=w, status=s) for i, (w, s) in enumerate(ended)]
        problem = problem_result("linear", "linear", 5, tests)
        heavy, light, *_ = (test.max_score for test in problem.tests)
        weights = sum(test.weight for test in tests)
        self.gives(problem_points=problem.max_score, problem_tests=len(tests))
        self.gives(heavy_weight=tests[0].weight)
        self.gives(heavy_share=(tests[0].weight, problem.max_score, weights, heavy))
        self.gives(light_share=light, problem_score=problem.score)
        empty = [Outcome(id="test", weight=1, status=Status.NOT_ATTEMPTED)]
        self.gives(stub_score=problem_result("linear", "linear", 5, empty).score)

    def two_runs(self) -> None:
        """Problems that have tests on both devices; tests/grader/results has their points."""
        problem = COURSE.problem("checkpoint")  # "such as"
        assert problem.device == "cpu"
        assert "cuda" in COURSE.hidden_tests(problem)

    def statuses(self) -> None:
        page = (HANDOUT / self.page).read_text(encoding="utf-8")
        assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [
            status.value for status in Status
        ]
        assert worst(list(Status)) is Status.GRADER_ERROR

    def report(self) -> None:
        try:
            expect.tensor(
                one_step(inside=True),
                one_step(inside=False),
                of="AdamW",
                atol=1e-6,
                name="a parameter after step 1",
            )
        except expect.Mismatch as e:
            verdict = verdict_on(e, test="test_of_this_page", rule="", asked="")
        section = COURSE.problem("adamw").section
        said = {
            "status": verdict.status,
            "about": verdict.about,
            "what": verdict.what,
            "facts": list(verdict.facts),
            "mistake": "ε stands inside the square root.",
            "hint": "where does ε stand?",
        }
        rules = ["Three steps agree with the formula.", "ε is added after the root is taken."]
        failed = [
            Outcome(id=f"test_of_this_page_{i}", weight=1, rule=rule, **said)
            for i, rule in enumerate(rules)
        ]
        rest = [Outcome(id=f"test_{i}", weight=1, status=Status.PASSED) for i in range(18)]
        points = problem_result("adamw", "optimizers", 20, [*failed, *rest])
        text = terminal_report.render(Reported(result([points]), sections={"adamw": section}))
        start = text.index("adamw · AdamW")
        self.gives(report=n(text[start : text.index("\n\n", start)]))
        self.gives(report_lines=terminal_report.MAX_LINES)

    def rules(self) -> None:
        assert [problem.id for problem in COURSE.problems if problem.forbidden_in] == ["autograd"]
        assert not COURSE.problem("training_loop").forbidden
        assert forbidden_in_source.RUNS_TEXT == ("exec", "eval", "compile", "__import__")

    def versions(self) -> None:
        needs = tomllib.loads((HANDOUT.parent / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]
        python = needs["requires-python"].removeprefix(">=")
        oldest = next(
            line.removeprefix("torch>=")
            for line in needs["optional-dependencies"]["assignment"]
            if line.startswith("torch>=")
        )
        self.gives(python=n(python), torch=n(oldest))
