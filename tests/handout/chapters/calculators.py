"""The page of all calculators. Its figures belong to units and to examples of input."""

from tests.handout.page_figures import Figures, n, power


class Chapter(Figures):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("calculators.md")
        # Examples of input, which test_calculators_in_browser types into a field.
        self.gives(typed=n("`70B`, `4k`, `1.5 Mi`, `70 billion` or `1e12`"))
        self.gives(decimal_units=power(10, 3), binary_units=power(2, 10))
