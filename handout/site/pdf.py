"""The handout as a PDF: the site's single page, printed, with page numbers in its contents."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, PdfMargins
from pypdf import PdfReader

from handout.site.browser import browser

FOOTER = (
    '<div style="width: 100%; font-size: 8px; text-align: center;">'
    '<span class="pageNumber"></span></div>'
)
# Unfolds the answers, moves the start page's own sections before the chapters, and puts a list of
# all sections first.
# `pages` has a number for each entry of the list, or is empty while the numbers are unknown.
CONTENTS = """(pages) => {
  document.querySelectorAll("details").forEach((folded) => { folded.open = true; });
  document.querySelectorAll(".page-numbers").forEach((old) => old.remove());
  document.querySelectorAll("#all-calculators, #document-calculators")
    .forEach((page) => page.remove());
  const chapters = document.querySelector("article .toctree-wrapper"), end = chapters.parentElement;
  [...end.querySelectorAll(":scope > section")].forEach((section) => chapters.before(section));
  const list = document.createElement("nav");
  list.className = "page-numbers";
  const headings = [...document.querySelectorAll("article h2, article h3:not(.calculator-title)")];
  headings.forEach((heading, i) => {
    const row = document.createElement("a");
    row.href = "#" + heading.closest("section").id;
    row.className = heading.tagName.toLowerCase();
    const number = Object.assign(document.createElement("span"), { textContent: pages[i] ?? "00" });
    row.append(heading.firstChild.textContent, number);
    list.append(row);
  });
  headings[0].closest("section").before(list);
  return headings.map((heading) => heading.firstChild.textContent);
}"""


def write(single_page: Path, out: Path) -> int:
    """Print the single page of the handout to `out`; returns how many pages it has.

    Raises:
        NoBrowser: There is no Chromium.
    """
    with browser() as started:
        page = started.new_page()
        page.emulate_media(media="print", color_scheme="light")
        page.goto(single_page.absolute().as_uri())
        titles = page.evaluate(CONTENTS, [])
        pages = _pages(_printed(page), titles)
        page.evaluate(CONTENTS, pages)
        printed = _printed(page)
        if _pages(printed, titles) != pages:
            raise RuntimeError(
                "the table of contents moved what it lists: its first and second printing differ"
            )
    out.write_bytes(_with_title(printed, b"PyTorch primitives and resource accounting"))
    return len(PdfReader(out).pages)


def _with_title(printed: bytes, title: bytes) -> bytes:
    """Replace the metadata by a title. They had the time, but the same text gives the same bytes.

    They keep their length, because a PDF lists where in the file each object is.
    """
    (number,) = re.findall(rb"/Info (\d+) 0 R", printed)
    found = re.search(rb"(?s)\n" + number + rb" 0 obj\n<<(.*?)>>\nendobj\n", printed)
    entry = b"/Title (" + title + b")"
    if not found or len(found[1]) < len(entry):
        raise RuntimeError("Chromium has printed a PDF whose metadata are not where they were")
    return printed[: found.start(1)] + entry.ljust(len(found[1])) + printed[found.end(1) :]


def _printed(page: Page) -> bytes:
    margin: PdfMargins = {"top": "18mm", "bottom": "18mm", "left": "18mm", "right": "18mm"}
    return page.pdf(
        format="A4",
        margin=margin,
        outline=True,
        tagged=True,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=FOOTER,
    )


def _pages(printed: bytes, titles: list[str]) -> list[int]:
    """The page of each heading, from the PDF's outline."""
    reader = PdfReader(BytesIO(printed))
    listed = entries(reader, reader.outline)
    return [
        next(page for name, page in listed if name.strip().rstrip("¶#") == title.strip())
        for title in titles
    ]


def entries(reader: PdfReader, outline: Any) -> Iterator[tuple[str, int]]:
    """The titles of an outline, which may be nested, each with its page."""
    for entry in outline:
        if isinstance(entry, list):
            yield from entries(reader, entry)
        else:
            yield entry.title, (reader.get_destination_page_number(entry) or 0) + 1
