"""The start page, and pages that belong to no chapter and have few figures."""

import re
from collections import Counter

import torch

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import micro_batch, quizzes, wren
from tests.handout.page_figures import COURSE, HANDOUT, Figures, n


class Index(Figures):
    """The start page: questions, conventions, and the chapters with their problems and points."""

    def beginning(self) -> None:
        self.gives(head_width=wren.HEAD_WIDTH, last_stage=4)
        page = (HANDOUT / self.page).read_text(encoding="utf-8")
        # For the problems of each chapter, as one reader who solved all of them judged.
        hours = [float(number) for number in re.findall(r"\[([\d.]+)\]\{#hours\}", page)]
        for number in hours:
            self.gives(hours=(number,))
        of_module, points = dict(zip(COURSE.modules, hours, strict=True)), Counter()
        for problem in COURSE.problems:
            points[problem.module] += problem.points
        listed = page.partition("### The short path")[2].partition("[fly]")[0]
        path = [COURSE.problem(name) for name in re.findall("`(.+?)`", listed)]
        assert len(path) == 9  # "Nine problems"
        # The hours of a chapter are divided by its problems' points.
        path_hours = sum(of_module[p.module] * p.points / points[p.module] for p in path)
        self.gives(all_hours=sum(hours), path_hours=path_hours)

    def conventions(self) -> None:
        gb, gib = 10**9, 2**30
        self.gives(gb=gb, gib=gib, gib_excess=100 * (gib / gb - 1))
        self.gives(notation=70 * gb, notation_spelled=(70, 10**9))


class Napkin(Figures):
    """The napkin page's recipes; tests/handout/test_quizzes.py checks its problems."""

    def beginning(self) -> None:
        llama = quizzes.LLAMA
        cache = micro_batch.cache_bytes(llama, 1, torch.bfloat16)
        forward, both = fc.linear_flops(1, 1, 1), fc.linear_flops(1, 1, 1, backward=True)
        self.gives(bf16_bytes=torch.bfloat16.itemsize)
        self.gives(adamw_bytes=ra.bytes_per_parameter(wren.RECIPE))
        self.gives(cache_bytes=cache // (llama.num_layers * llama.kv_width))
        self.gives(six=f"{n(fc.training_flops(1, 1))}ND")
        self.gives(eight=f"{n(fc.training_flops(1, 1, recompute_forward=True))}ND")
        self.gives(mfu_low=0.3)  # between the runs that chapter 4 lists
        self.gives(mfu_high=0.45, logit_bytes=micro_batch.LOGIT, backward_rule=both - forward)
        self.formula("ring", "2(n − 1)/n", quizzes.ring(1, torch.int8, 8) == 2 * (8 - 1) / 8)


class Calculators(Figures):
    """The page of all calculators. Its figures belong to units and to examples of input."""

    def beginning(self) -> None:
        # Examples of input, which test_calculators_in_browser types into a field.
        self.gives(typed=n("`70B`, `4k`, `1.5 Mi`, `70 billion` or `1e12`"), decimal_units=10**3)
        self.gives(binary_units=2**10)


class WhatTestsTry(Figures):
    """The page on what tests try: the inputs that are ordinary, once for all problems."""

    def beginning(self) -> None:
        self.gives(least=1e-6, most=1e6)
        parameters, tokens = 70 * 10**9, 15 * 10**12
        assert fc.training_flops(parameters, tokens) > 2**63
        self.gives(parameters=parameters, tokens=tokens, int64_end=2**63, relative=1e-6)


OF_PAGE = {
    "index.md": Index,
    "napkin.md": Napkin,
    "calculators.md": Calculators,
    "what_tests_try.md": WhatTestsTry,
    "bibliography.md": Figures,  # sphinxcontrib-bibtex writes its entries
}
