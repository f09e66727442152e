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


@pytest.fixture(scope="session")
def pages(reader):
    """The text of each page, on one line."""
    return [plain(page.extract_text()) for page in reader.pages]


def plain(text):
    """The text on one line, with straight apostrophes."""
    return " ".join(text.replace("’", "'").split())


def headings():
    """Chapters and sections in the order of the handout."""
    return [
        f"{first}.{second} {title}" if second else f"{first} {title}"
        for name, text in agreement.pages().items()
        if name[0].isdigit()
        for _, first, second, title in agreement.HEADING.findall(text)
    ]


def test_the_contents_say_on_which_page_each_section_is(pages):
    """Each chapter and section is listed with the page of its heading."""
    contents = " ".join(pages[:4])  # the start page, then up to three pages of contents
    for heading in headings():
        found = re.search(rf"{re.escape(heading)} ?(\d+)", contents)
        assert found, heading
        assert heading in pages[int(found[1]) - 1], (heading, found[1])


def test_the_first_page_shows_the_course(pages):
    """The picture of a training step is not moved to the next page, and the contents follow."""
    assert "about $410" in pages[0]
    assert "What happens when it stops?" in pages[0]
    assert "11.1 A loop that can be stopped" in " ".join(pages[1:4])


def test_the_formula_sheet_is_one_page(pages, browser, site, tmp_path):
    """In the PDF, and if its page of the site is printed."""
    first = next(i for i, text in enumerate(pages) if "Printed, the sheet takes one page" in text)
    # In the handout it follows other text, so it may begin in the middle of a page.
    assert "weight of a micro-batch" in " ".join(pages[first : first + 2])
    page = browser.new_page()
    page.goto((site / "formula_sheet.html").as_uri())
    page.pdf(path=tmp_path / "sheet.pdf", format="A4")
    page.close()
    assert len(PdfReader(tmp_path / "sheet.pdf").pages) == 1


def test_the_text_is_the_sites(pages):
    """The PDF contains every calculator's example numbers and the problems' boxes."""
    text = " ".join(pages)
    for piece in (
        "143.93 days",
        "40.0 billion",
        "53.3 billion",
        "295.4",
        "12,632,757,419 (12.63 billion)",
        "Problem training_loop · 12 points",
    ):
        assert piece in text, piece


def test_what_a_calculator_was_given_is_printed(pages):
    """The inputs are printed next to the results; a form field's value alone is not text."""
    assert any("Tokens, D" in text and "15e12" in text for text in pages)


def test_no_page_is_empty(pages):
    """Every page contains more than its number."""
    assert [number for number, text in enumerate(pages, 1) if len(text) < 100] == []


def test_nothing_of_a_form_is_printed(site, pages):
    """The PDF has no button, no page of calculators, no skip link and no complaint of the theme.

    The site's page of calculators has the first three, so the test looks for texts that exist.
    """
    tagged = (site / "calculators.html").read_text(encoding="utf-8")
    page = plain(html.unescape(re.sub(r"<[^>]+>", " ", tagged)))
    text = " ".join(pages)
    for piece in (
        "Reset Link to these values",
        "Every calculator also appears in the chapter that explains it",
        "Skip to content",
    ):
        assert piece in page, piece
        assert piece not in text, piece
    assert "ERROR" not in text


def test_the_outline_has_every_section(reader):
    """PDF viewers show the outline in a side panel."""
    titles = []

    def walk(entries):
        for entry in entries:
            walk(entry) if isinstance(entry, list) else titles.append(plain(entry.title))

    walk(reader.outline)
    assert [title for title in titles if title in headings()] == headings()
