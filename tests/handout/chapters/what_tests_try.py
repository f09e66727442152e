"""The page on what tests try: the inputs that are ordinary, once for all problems."""

from grader.solutions.reference import flop_counting
from tests.handout.page_figures import Figures, n, power, scientific, short


class Chapter(Figures):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("what_tests_try.md")
        self.gives(least=scientific(1e-6, 0), most=scientific(1e6, 0))
        parameters, tokens = 70 * 10**9, 15 * 10**12
        assert flop_counting.training_flops(parameters, tokens) > 2**63
        self.gives(
            parameters=short(parameters),
            tokens=short(tokens, unit=12),
            int64_end=power(2, 63),
        )
        self.gives(relative=n("1e-6"))
