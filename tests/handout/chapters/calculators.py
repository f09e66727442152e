"""The page of all calculators: its units."""

from tests.handout.claims import Claims, power


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("calculators.md")
        self.says(f"in units of {power(10, 3)} (kB, MB, GB) and of {power(2, 10)} (KiB, MiB, GiB)")
