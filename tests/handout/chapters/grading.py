"""The page on grading: limits, sizes, points, statuses and a report, from the grader itself."""

import math
import re

import torch
from torch import nn

import kit
from grader.base.errors import Status
from grader.grading import sandboxed_student
from grader.grading.verdict import verdict_on
from grader.report import terminal_report
from grader.report.report_contents import Reported
from grader.results.points import ALL_MINOR, EACH_MINOR, HARM, problem_result
from grader.results.result_records import worst
from grader.solutions.reference import optimizers as op
from grader.submission import archives
from grader.wire import protocol
from grader.worker import zygote
from kit import expect, forbidden_in_source, handing_in
from tests.grader.report.sample_results import ended, result
from tests.handout.page_figures import COURSE, HANDOUT, Figures, n


class Chapter(Figures):
    def zip(self) -> None:
        self.gives(max_mib=handing_in.MAX_BYTES >> 20, max_files=handing_in.MAX_FILES)
        self.gives(max_entries=archives.MAX_ENTRIES)
        self.gives(max_archive_mib=archives.MAX_ARCHIVE_BYTES >> 20, max_name=handing_in.MAX_NAME)
        self.gives(max_folders=handing_in.MAX_FOLDERS)
        shown = re.search(r"sources (\w+) ·", terminal_report.render(Reported(result())))[1]
        self.gives(shown_hash=len(shown))
        first, *others, last = (name.removeprefix("assignment/") for name in handing_in.THE_COURSES)
        self.gives(
            ours=f"`assignment/{first}`, {', '.join(f'`{name}`' for name in others)} and `{last}`"
        )

    def limits(self) -> None:
        assert kit.USUAL_PACKAGES == ("torch", "numpy", "einops", "jaxtyping")
        usual, longer = COURSE.limits, COURSE.limits_of(COURSE.problem("training_loop"))
        for problem in COURSE.problems:  # "those of chapter 13"
            assert (problem.device == "cuda") == (problem.module == "gpu")
            is_long = problem.id == "training_loop" or problem.module == "gpu"
            assert COURSE.limits_of(problem) == (longer if is_long else usual)
        assert longer.wall_seconds == 4 * longer.cpu_seconds
        assert longer.memory_bytes == usual.memory_bytes
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

    def points(self) -> None:
        worse, number, crash, *minor = HARM.values()
        assert not any(minor)
        self.gives(worse_weight=worse, number_weight=number, crash_weight=crash)
        self.gives(each_minor=100 // EACH_MINOR, all_minor=100 // ALL_MINOR)
        of = [(2, Status.PASSED), (1, Status.FAILED), (1, Status.PASSED), (1, Status.PASSED)]
        tests = [ended(i, status, weight=weight) for i, (weight, status) in enumerate(of)]
        problem = problem_result("linear", "linear", 5, tests)
        heavy, light, *_ = (test.max_score for test in problem.tests)
        weights = sum(test.weight for test in tests)
        self.gives(problem_points=problem.max_score, problem_tests=len(tests))
        self.gives(heavy_weight=tests[0].weight)
        self.gives(heavy_share=(tests[0].weight, problem.max_score, weights, heavy))
        self.gives(light_share=light, problem_score=problem.score)
        empty = [ended("stub", Status.NOT_ATTEMPTED)]
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
        p, gradient, lr, eps = nn.Parameter(torch.ones(1)), 0.1, 0.1, 0.01
        p.grad = torch.full_like(p, gradient)
        op.AdamW([p], lr=lr, eps=eps, weight_decay=0.0).step()
        inside = torch.tensor([1 - lr * gradient / math.sqrt(gradient**2 + eps)])
        try:
            expect.tensor(
                inside, p.detach(), of="AdamW", atol=1e-6, name="a parameter after step 1"
            )
        except expect.Mismatch as e:
            verdict = verdict_on(e, test="test_of_this_page", rule="", asked="")
        said = {"about": verdict.about, "facts": list(verdict.facts)}
        said |= {"mistake": "ε stands inside the square root.", "hint": "where does ε stand?"}
        rules = ["Three steps agree with the formula.", "ε is added after the root is taken."]
        failed = [
            ended(i, verdict.status, what=verdict.what, rule=rules[i], **said) for i in (0, 1)
        ]
        rest = [ended(i, Status.PASSED) for i in range(2, 20)]
        points = problem_result("adamw", "optimizers", 20, [*failed, *rest])
        sections = {"adamw": COURSE.problem("adamw").section}
        text = terminal_report.render(Reported(result(points), sections=sections))
        start = text.index("adamw · AdamW")
        self.gives(report=n(text[start : text.index("\n\n", start)]))
        self.gives(report_lines=terminal_report.MAX_LINES)

    def rules(self) -> None:
        assert [problem.id for problem in COURSE.problems if problem.forbidden_in] == ["autograd"]
        assert not COURSE.problem("training_loop").forbidden
        assert forbidden_in_source.RUNS_TEXT == ("exec", "eval", "compile", "__import__")

    def versions(self) -> None:
        needs = (HANDOUT.parent / "pyproject.toml").read_text(encoding="utf-8")
        for name, line in (("python", 'requires-python = ">=(.+)"'), ("torch", '"torch>=(.+)"')):
            self.gives(**{name: n(re.search(line, needs)[1])})
