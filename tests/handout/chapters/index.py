"""The start page: questions, conventions, and the chapters with their problems and points."""

import re
from collections import Counter

from grader.solutions.reference import flop_counting
from handout.site import wren
from tests.handout.page_figures import COURSE, HANDOUT, Figures

# For the problems of each chapter, as one reader who solved all of them judged.
HOURS = [3.5, 2.5, 2, 5, 4, 6, 1, 4, 1.5, 5, 9, 6, 8]
SHORT_PATH = [
    "tensor_memory",
    "flop_formulas",
    "napkin_math",
    "linear",
    "adamw",
    "gradient_clipping",
    "lr_schedule",
    "get_batch",
    "training_loop",
]


class Chapter(Figures):
    def beginning(self) -> None:
        page = (HANDOUT / self.page).read_text(encoding="utf-8")
        listed = re.search(
            r"^```{toctree}\n:hidden:\n\n(.+?)\n```$", page, re.MULTILINE | re.DOTALL
        )[1].split()
        assert listed == [
            "shapes",
            *(f"{number:02}_{module}" for number, module in enumerate(COURSE.modules, 1)),
            "flight",
            "what_tests_try",
            "grading",
            "napkin",
            "formula_sheet",
            "calculators",
            "bibliography",
        ]
        self.gives(head_width=wren.HEAD_WIDTH)
        for hours in HOURS:
            self.gives(hours=(hours,))
        self.gives(all_hours=sum(HOURS), path_hours=self.path_hours())
        assert len(HOURS) == len(COURSE.modules)
        listed = page.partition("### The short path")[2].partition("[fly]")[0]
        assert re.findall("`(.+?)`", listed) == SHORT_PATH
        # "The problems of chapter 13". handout.site.agreement checks the list of problems.
        assert all((p.device == "cuda") == (p.module == "gpu") for p in COURSE.problems)

    @staticmethod
    def path_hours() -> float:
        """The hours of the short path; a chapter's are divided by its problems' points."""
        hours = dict(zip(COURSE.modules, HOURS, strict=True))
        points = Counter()
        for problem in COURSE.problems:
            points[problem.module] += problem.points
        path = map(COURSE.problem, SHORT_PATH)
        return sum(hours[p.module] * p.points / points[p.module] for p in path)

    def questions(self) -> None:
        """The questions that the chapters answer."""
        t, i, o = 5, 3, 7
        forward = flop_counting.linear_flops(t, i, o)
        assert flop_counting.linear_flops(t, i, o, backward=True) - forward == 2 * forward

    def conventions(self) -> None:
        """The units."""
        gb, gib = 10**9, 2**30
        self.gives(gb=10**9, gib=2**30, gib_excess=100 * (gib / gb - 1))
        assert flop_counting.matmul_flops((1, 1), (1, 1)) == 2, "a multiply and an add"
        self.gives(notation=70 * gb, notation_spelled=(70, 10**9))
