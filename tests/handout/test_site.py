"""The built site in a real Chromium without network: requests, links, search, layout."""

import html
import re
import shutil
from itertools import product
from urllib.parse import unquote, urldefrag

import pytest
from pybtex.database import parse_file

from grader.course import courses
from handout.site import calculator_formulas, chapter_notebooks
from tests.grader.sampling import every
from tests.handout.browsing import SIDEBAR, WIDTHS, cut_off, measured, serious
from tests.handout.page_figures import CHAPTERS, HANDOUT, IN_ORDER

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

PAGES = ["index", *IN_ORDER, "stubs"]
# A link at the foot of each page. The only other external addresses are those of bibliography.bib.
THEME = "https://github.com/pradyunsg/furo"
BIBLIOGRAPHY = parse_file(HANDOUT / "bibliography.bib").entries


@pytest.fixture
def opened(page, address):
    def open_page(name):
        page.goto(address(name))
        assert page.seen == []
        return page

    return open_page


@pytest.mark.parametrize("name", every(9, [*PAGES[5:], *PAGES[:5], "search"]))
def test_a_page_needs_no_network_and_can_be_read(opened, page, site, name):
    """All that it requests is in the site, its sidebar follows the reader, nothing is cut off."""
    page.set_viewport_size({"width": 1400, "height": 400})
    opened(name)
    assert page.requests
    assert [url for url in page.requests if not url.startswith(site.as_uri() + "/")] == []
    if name in CHAPTERS:
        headings, listed, marked = page.evaluate(SIDEBAR)
        assert len(headings) > 3
        assert headings == listed
        assert marked == [1, True]
    assert small(page) == []
    assert cut_off(page, measured(name)) == {}
    assert page.seen == []


def small(page):
    """What can be pressed and has less than 24 pixels in a direction, against WCAG 2.2, 2.5.8."""
    sizes = page.evaluate(
        """[...document.querySelectorAll("button, input, select, summary")]
          .map((one) => [one.className || one.name, one.getBoundingClientRect()])
          .map(([name, { width, height }]) => [name, Math.min(width, height)])"""
    )
    return [one for one in sizes if 1 < one[1] < 24]


def test_reports_can_link_to_each_problem(site):
    course = courses.load()
    links = course.handout_links("https://course.example/handout/")
    assert list(links) == [problem.id for problem in course.problems]
    for problem in course.problems:
        page, _, anchor = links[problem.id].rpartition("/")[2].partition("#")
        text = (site / page).read_text(encoding="utf-8")
        heading = rf'id="{anchor}"></?(?:span[^>]*></?)*h2>{re.escape(problem.section)} '
        assert re.search(heading, text), problem.id


def test_it_works_in_a_students_folder(site, page, tmp_path):
    """The skip link passes the sidebar, formulas have their font, and the search finds pages.

    The font comes with the site. Parentheses around a fraction grow with it, which needs a font for
    mathematics.
    """
    copy = shutil.copytree(site, tmp_path / "a folder with blanks" / "site")
    page.goto((copy / "index.html").as_uri())
    for key in ("Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.matches('article a')")
    assert page.url.endswith("#furo-main-content")
    search = (copy / "search.html").as_uri()
    page.goto(search + "?q=xylophone")
    page.get_by_text("did not match any documents").wait_for()
    page.goto(search + "?q=roofline")
    page.get_by_text("Search finished").wait_for()
    page.locator("#search-results li a").get_by_text("Resource accounting").first.click()
    page.locator("article .highlighted").first.wait_for()
    assert page.locator("h1").inner_text().startswith("5 Resource accounting")
    page.evaluate("document.fonts.ready")
    height = "(all) => Math.max(...all.map((mo) => mo.getBoundingClientRect().height))"
    parentheses = page.locator(".formula mo").get_by_text("(", exact=True)
    assert parentheses.evaluate_all(height) > 1.5 * 16
    page.locator("#calculator-training-time [name=devices]").fill("2048")
    assert "71.96\u00a0days" in page.locator("#calculator-training-time").inner_text()
    assert page.locator("figure.picture svg").count() == 2
    assert page.seen == []
    assert all(url.startswith("file:") for url in page.requests)


def test_every_reference_is_cited():
    text = "".join(path.read_text(encoding="utf-8") for path in HANDOUT.glob("*.md"))
    assert set(re.findall(r"\{cite:t\}`(\w+)`", text)) == set(BIBLIOGRAPHY)
    for key, entry in BIBLIOGRAPHY.items():
        assert entry.persons["author"], key
        assert entry.fields["year"].isdigit(), key


@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_every_link_leads_somewhere(site, name):
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    assert re.findall(r'<(?!a )[^>]+(?:src|href)="[^"]*//[^"]*"', text) == [], (
        "a file from outside the site"
    )
    links = {html.unescape(href) for href in re.findall(r'<a\s[^>]*href="([^"]*)"', text)} - {THEME}
    if name == "bibliography":
        cited = {*map(chapter_notebooks.address_of, BIBLIOGRAPHY.values())} - {""}
        assert cited <= links
        links -= cited
    for href in sorted(links):
        path, fragment = urldefrag(href)
        file = site / (unquote(path) or f"{name}.html")
        assert file.is_file(), href
        there = html.unescape(file.read_text(encoding="utf-8")) if fragment else ""
        assert not fragment or f'id="{unquote(fragment)}"' in there, href


@pytest.mark.parametrize(
    ("layout", "name"), every(54, product([(1400, "light"), (400, "dark")], [*PAGES, "search"]))
)
def test_axe_finds_nothing_serious(opened, page, layout, name):
    """Drawings can be read, too."""
    width, scheme = layout
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    opened(name)
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    check_colours(page)


def test_sections_are_reached_by_keyboard_on_a_phone(opened, page):
    """The page and its menu can be read and pressed, in dark colours too."""
    page.set_viewport_size({"width": 400, "height": 900})
    page.emulate_media(color_scheme="dark")
    opened("calculators")
    rest = [[f"#calculator-{name}"] for name in list(calculator_formulas.load())[1::2]]
    assert serious(page, {"exclude": rest}) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert small(page) == []
    check_colours(page)
    button = page.get_by_role("button", name="Chapters and sections")
    link = page.locator(".sidebar-tree .sections a").nth(1)
    assert not link.is_visible()
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    link.wait_for(state="visible")
    assert serious(page, [[".mobile-header"], [".sidebar-drawer"]]) == []
    page.keyboard.press("Escape")
    link.wait_for(state="hidden")
    page.keyboard.press("Space")
    link.focus()
    page.keyboard.press("Enter")
    link.wait_for(state="hidden")
    assert page.url.endswith(link.get_attribute("href"))
    page.wait_for_function("scrollY > 0")


def check_colours(page):
    """Text on a fill has a contrast of at least 4.5, and a fill on the page of at least 3.

    These are the minimums of WCAG 2.1, 1.4.3 and 1.4.11.
    """
    names = [*(f"--s{n}" for n in range(1, 7)), "--on-fill", "--wrong"]
    names += ["--color-background-primary", "--color-foreground-primary"]
    colours = page.evaluate(
        """(names) => {
          const style = getComputedStyle(document.body);
          const canvas = document.createElement("canvas").getContext("2d");
          const hex = (name) => {
            canvas.fillStyle = "#010203"; // stays if the name is unknown
            canvas.fillStyle = style.getPropertyValue(name).trim();
            return canvas.fillStyle;
          };
          return Object.fromEntries(names.map((name) => [name, hex(name)]));
        }""",
        names,
    )
    assert "#010203" not in colours.values()
    ground = colours["--color-background-primary"]
    for n in range(1, 7):
        assert contrast(colours[f"--s{n}"], colours["--on-fill"]) >= 4.5, n
        assert contrast(colours[f"--s{n}"], ground) >= 3, n
    assert contrast(colours["--wrong"], ground) >= 4.5
    assert contrast(colours["--color-foreground-primary"], ground) >= 7


def contrast(one, other):
    """The contrast ratio of two colours (#rrggbb), by WCAG 2.1."""

    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


# --- on screens of four widths, no formula, code, table or picture is cut off on any page ---------

# Code and tables that are too wide for a phone are in a box that scrolls, shows that it does, and
# can be reached with the keyboard. Formulas never scroll. From 1,000 pixels on, nothing has to.


@pytest.mark.proof
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off_at_any_width(page, address, name):
    page.goto(address(name))
    layouts = [(width, scheme) for scheme in ("light", "dark") for width in WIDTHS]
    assert cut_off(page, [layout for layout in layouts if layout not in measured(name)]) == {}
