"""The list of references, whose page has no figures of its own."""

from tests.handout.page_figures import Figures


class Chapter(Figures):
    """No figures: sphinxcontrib-bibtex writes the entries from bibliography.bib."""

    def __init__(self) -> None:
        super().__init__("bibliography.md")
