"""The handout as a PDF: the site's single page, printed, with page numbers in its contents."""

import re
from io import BytesIO
from pathlib import Path

from playwright.sync_api import PdfMargins
from pypdf import PdfReader

from handout.site.browser import browser

FOOTER = (
    '<div style="width: 100%; font-size: 8px; text-align: center;">'
    '<span class="pageNumber"></span></div>'
)
MARGIN: PdfMargins = {"top": "18mm", "bottom": "18mm", "left": "18mm", "right": "18mm"}
# Unfolds the answers, moves the start page's own sections before the chapters, and puts a list of
# all sections first, which links to a target in each heading.
CONTENTS = """() => {
  document.querySelectorAll("details").forEach((folded) => { folded.open = true; });
  document.querySelectorAll("#all-calculators, #document-calculators")
    .forEach((page) => page.remove());
  const chapters = document.querySelector("article .toctree-wrapper"), end = chapters.parentElement;
  [...end.querySelectorAll(":scope > section")].forEach((section) => chapters.before(section));
  const list = document.createElement("nav");
  list.className = "page-numbers";
  const headings = [...document.querySelectorAll("article h2, article h3:not(.calculator-title)")];
  headings.forEach((heading, i) => {
    const row = document.createElement("a"), number = document.createElement("span");
    row.href = "#heading-" + i;
    row.className = heading.tagName.toLowerCase();
    number.textContent = "00";
    row.append(heading.firstChild.textContent, number);
    list.append(row);
    heading.append(Object.assign(document.createElement("span"), { id: "heading-" + i }));
  });
  headings[0].closest("section").before(list);
  return headings.length;
}"""
NUMBERS = """(pages) => document.querySelectorAll(".page-numbers span").forEach((number, i) => {
  number.textContent = pages[i];
})"""


def write(single_page: Path, out: Path) -> int:
    """Print the single page of the handout to `out`; returns how many pages it has.

    Raises:
        NoBrowser: There is no Chromium.
    """
    with browser() as started:
        page = started.new_page()
        page.emulate_media(media="print", color_scheme="light")
        page.goto(single_page.absolute().as_uri())
        count = page.evaluate(CONTENTS)
        pages = _pages(page.pdf(format="A4", margin=MARGIN), count)
        page.evaluate(NUMBERS, pages)
        printed = page.pdf(
            format="A4",
            margin=MARGIN,
            outline=True,
            tagged=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
        )
        if _pages(printed, count) != pages:
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


def _pages(printed: bytes, count: int) -> list[int]:
    """The page of each of `count` headings, from the targets of the PDF's links."""
    reader = PdfReader(BytesIO(printed))
    targets = reader.named_destinations
    return [
        (reader.get_destination_page_number(targets[f"/heading-{i}"]) or 0) + 1
        for i in range(count)
    ]
