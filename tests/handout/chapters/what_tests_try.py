"""The page on what tests try: the inputs that are ordinary, once for all problems."""

from grader.solutions.reference import flop_counting
from tests.handout.page_figures import Figures


class Chapter(Figures):
    def beginning(self) -> None:
        self.gives(least=1e-6, most=1e6)
        parameters, tokens = 70 * 10**9, 15 * 10**12
        assert flop_counting.training_flops(parameters, tokens) > 2**63
        self.gives(parameters=parameters, tokens=tokens, int64_end=2**63, relative=1e-6)
