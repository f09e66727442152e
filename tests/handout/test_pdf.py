"""The PDF: the site's text, a correct table of contents, working links, and no form elements."""

import html
import re
from functools import cache

import pytest
from pypdf import PdfReader

from handout.site import agreement
from tests.handout.browsing import written

# Continuous integration also makes the PDF on every push, which fails if its contents are wrong.
pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("pdf")]


@pytest.fixture(scope="session")
def reader(browser, tmp_path_factory):
    """The PDF that the command writes."""
    return PdfReader(written(tmp_path_factory.mktemp("printed")) / "handout.pdf")


@pytest.fixture(scope="session")
def text(reader):
    """The text of each page, on one line; a page is read when a test asks for it, which is slow."""
    return cache(lambda number: plain(reader.pages[number].extract_text()))


@pytest.fixture(scope="session")
def outline(reader):
    """The number of the page of each heading, counted from 0."""

    def listed(entries):
        for entry in entries:
            if isinstance(entry, list):
                yield from listed(entry)
            else:
                yield plain(entry.title), reader.get_destination_page_number(entry)

    return dict(listed(reader.outline))


@pytest.fixture(scope="session")
def read(reader, text):
    return [*map(text, range(len(reader.pages)))]


def plain(text):
    return " ".join(text.replace("’", "'").split())


def headings():
    return [
        f"{first}.{second} {title}" if second else f"{first} {title}"
        for name, text in agreement.pages().items()
        if name[0].isdigit()
        for _, first, second, title in agreement.HEADING.findall(text)
    ]


def test_the_contents_say_on_which_page_each_section_is(text, outline):
    contents = " ".join(map(text, range(4)))  # the start page, up to three pages of contents
    for heading in headings():
        found = re.search(rf"{re.escape(heading)} ?(\d+)", contents)
        assert found, heading
        assert int(found[1]) - 1 == outline[heading], heading
        assert heading in text(int(found[1]) - 1), (heading, found[1])


def test_the_first_page_shows_the_course(text):
    """The picture of a training step is not moved to the next page, and the contents follow."""
    assert "about $410" in text(0)
    assert "What happens when it stops?" in text(0)
    assert "11.1 A loop that can be stopped" in " ".join(map(text, (1, 2, 3)))


def test_the_formula_sheet_is_one_page(text, outline, browser, site, tmp_path):
    first = outline["Formula sheet"]
    # In the handout it follows other text, so it may begin in the middle of a page.
    assert "Sizes count elements, times are seconds" in text(first)
    assert "weight of a micro-batch" in text(first) + text(first + 1)
    page = browser.new_page()
    page.goto((site / "formula_sheet.html").as_uri())
    page.pdf(path=tmp_path / "sheet.pdf", format="A4")
    page.close()
    assert len(PdfReader(tmp_path / "sheet.pdf").pages) == 1


def test_the_text_is_the_sites(read):
    pieces = ["143.93 days", "40.0 billion", "53.3 billion", "295.4"]
    pieces += ["12,632,757,419 (12.63 billion)", "Problem roofline · 5 points"]
    assert [piece for piece in pieces if piece not in " ".join(read)] == []


def test_what_a_calculator_was_given_is_printed(read):
    """The inputs are printed next to the results; a form field's value alone is not text."""
    assert any("Tokens, D" in text and "15e12" in text for text in read)


def test_no_page_is_empty(read):
    assert [number + 1 for number, said in enumerate(read) if len(said) < 100] == []


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
    assert [*filter(headings().__contains__, outline)] == headings()
