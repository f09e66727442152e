"""The PDF: the site's text, a correct table of contents, working links, and no form elements."""

import html
import re

import pytest
from pypdf import PdfReader

from handout.site import agreement

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="session")
def reader(browser, built):
    """The PDF that the command writes; `browser` skips or fails the test if it was not written."""
    return PdfReader(built / "handout.pdf")


class Pages:
    """The text of each page, on one line; a page is read when a test asks for it, which is slow."""

    def __init__(self, reader):
        self._pages, self._texts = list(reader.pages), {}

    def __len__(self):
        return len(self._pages)

    def __getitem__(self, place):
        """The text of a page, or the texts of a slice."""
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if place not in self._texts:
            self._texts[place] = plain(self._pages[place].extract_text())
        return self._texts[place]

    def pieces_of_text(self, place):
        """How often a page draws text, which is known without reading it."""
        return self._pages[place].get_contents().get_data().count(b" Tj")


@pytest.fixture(scope="session")
def pages(reader):
    return Pages(reader)


@pytest.fixture(scope="session")
def outline(reader):
    found = {}

    def walk(entries):
        for entry in entries:
            if isinstance(entry, list):
                walk(entry)
            else:
                found[plain(entry.title)] = reader.get_destination_page_number(entry)

    walk(reader.outline)
    return found


@pytest.fixture(params=["chapter 5", pytest.param("all", marks=pytest.mark.proof)])
def read(request, pages, outline):
    """The text of the chapter with the most calculators; for `make proof`, of all pages, too."""
    if request.param == "all":
        return pages[:]
    return pages[outline["5 Resource accounting"] : outline["6 Gradients"] + 1]


def plain(text):
    return " ".join(text.replace("’", "'").split())


def headings():
    return [
        f"{first}.{second} {title}" if second else f"{first} {title}"
        for name, text in agreement.pages().items()
        if name[0].isdigit()
        for _, first, second, title in agreement.HEADING.findall(text)
    ]


@pytest.mark.parametrize("one_in", [6, pytest.param(1, marks=pytest.mark.proof)])
def test_the_contents_say_on_which_page_each_section_is(pages, outline, one_in):
    contents = " ".join(pages[:4])  # the start page, then up to three pages of contents
    for number, heading in enumerate(headings()):
        found = re.search(rf"{re.escape(heading)} ?(\d+)", contents)
        assert found, heading
        assert int(found[1]) - 1 == outline[heading], heading
        if number % one_in == 0:
            assert heading in pages[int(found[1]) - 1], (heading, found[1])


def test_the_first_page_shows_the_course(pages):
    """The picture of a training step is not moved to the next page, and the contents follow."""
    assert "about $410" in pages[0]
    assert "What happens when it stops?" in pages[0]
    assert "11.1 A loop that can be stopped" in " ".join(pages[1:4])


def test_the_formula_sheet_is_one_page(pages, outline, browser, site, tmp_path):
    first = outline["Formula sheet"]
    # In the handout it follows other text, so it may begin in the middle of a page.
    assert "Printed, the sheet takes one page" in pages[first]
    assert "weight of a micro-batch" in " ".join(pages[first : first + 2])
    page = browser.new_page()
    page.goto((site / "formula_sheet.html").as_uri())
    page.pdf(path=tmp_path / "sheet.pdf", format="A4")
    page.close()
    assert len(PdfReader(tmp_path / "sheet.pdf").pages) == 1


def test_the_text_is_the_sites(read):
    text = " ".join(read)
    for piece in (
        "143.93 days",
        "40.0 billion",
        "53.3 billion",
        "295.4",
        "12,632,757,419 (12.63 billion)",
        "Problem roofline · 5 points",
    ):
        assert piece in text, piece


def test_what_a_calculator_was_given_is_printed(read):
    """The inputs are printed next to the results; a form field's value alone is not text."""
    assert any("Tokens, D" in text and "15e12" in text for text in read)


def test_no_page_is_empty(pages):
    few = [place for place in range(len(pages)) if pages.pieces_of_text(place) < 20]
    assert len(few) < 20
    assert [place + 1 for place in few if len(pages[place]) < 100] == []


def test_nothing_of_a_form_is_printed(site, read):
    """The PDF has no button, no page of calculators, no skip link and no complaint of the theme.

    The site's page of calculators has the first three, so the test looks for texts that exist.
    """
    tagged = (site / "calculators.html").read_text(encoding="utf-8")
    page = plain(html.unescape(re.sub(r"<[^>]+>", " ", tagged)))
    text = " ".join(read)
    for piece in (
        "Reset Link to these values",
        "Every calculator also appears in its chapter",
        "Skip to content",
    ):
        assert piece in page, piece
        assert piece not in text, piece
    assert "ERROR" not in text


def test_the_outline_has_every_section(outline):
    assert [title for title in outline if title in headings()] == headings()
