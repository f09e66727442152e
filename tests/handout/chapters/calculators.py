"""The page of all calculators. Its figures belong to units and to examples of input."""

from tests.handout.page_figures import Figures, n


class Chapter(Figures):
    def beginning(self) -> None:
        # Examples of input, which test_calculators_in_browser types into a field.
        self.gives(typed=n("`70B`, `4k`, `1.5 Mi`, `70 billion` or `1e12`"), decimal_units=10**3)
        self.gives(binary_units=2**10)
