"""The page of all calculators. Its only figures belong to units."""

from tests.handout.page_figures import Figures, power


class Chapter(Figures):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("calculators.md")
        self.gives(decimal_units=power(10, 3), binary_units=power(2, 10))
