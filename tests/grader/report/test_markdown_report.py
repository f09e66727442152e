"""Markdown for GitHub: readers see the right content, and no text becomes markup."""

import re
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from grader.report import markdown_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from tests.grader.report.sample_results import (
    HARMLESS,
    HOSTILE,
    every_status,
    failed,
    hostile,
    hostile_comments,
    override,
    result,
    standing,
)

# What GitHub turns into links in text outside code, after it has rendered the Markdown.
LINKED = re.compile(r"@\w|#\d|://|www\.|GH-\d", re.IGNORECASE)
EXPECTED = {
    "heading", "paragraph", "inline", "text", "softbreak", "code_inline", "fence", "table", "thead",
    "tbody", "tr", "th", "td", "bullet_list", "list_item", "text_special",
}  # fmt: skip


SECTIONS = {"linear": "7.1", "adamw": "8.2"}
LINKS = {"linear": "https://course.example/handout/07_linear.html#section-7-1"}


def render(*arguments, sections=SECTIONS, links=None):
    """The report, with the sections of two problems and no addresses."""
    return markdown_report.render(Reported(*arguments, sections=sections, links=links or {}))


def tokens(text):
    """The elements that GitHub would create from a Markdown text, including inline elements."""
    found = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [part for token in found for part in (token, *(token.children or ()))]


def kinds(text):
    """The kinds of elements, with start and end tags treated alike."""
    return {token.type.removesuffix("_open").removesuffix("_close") for token in tokens(text)}


def prose(text):
    """All text outside code."""
    return [token.content for token in tokens(text) if token.type in ("text", "text_special")]


def code(text):
    """The content of all code spans and blocks."""
    return [token.content for token in tokens(text) if token.type in ("code_inline", "fence")]


def cells(text):
    """The table as rows of cells."""
    found, row = [], []
    parts = MarkdownIt("commonmark").enable("table").parse(text)
    for token, inline in pairwise(parts):
        if token.type in ("td_open", "th_open"):
            row.append("".join(child.content for child in inline.children))
        elif token.type == "tr_close":
            found.append(row)
            row = []
    return found


def test_the_points_come_first_then_the_problems():
    text = render(every_status())
    assert text.startswith("## 3.33 of 15 points\n\nSubmission `ada`\n")
    assert cells(text) == [
        ["problem", "points", "tests passed", "status"],
        ["linear", "3.33 / 10", "2 / 6", "crashed"],
        ["adamw", "0 / 5", "0 / 3", "policy"],
        ["gpu", "0 / 4", "0 / 1", "deferred"],
    ]
    assert "4 points pending" in text
    assert "Not attempted, 1.67 points: `adamw`." in text


def test_each_failure_is_told_once():
    text = render(every_status())
    assert 1 == text.count("wrong values")
    section = text.split("### ")[1]
    assert section == (
        "linear: failed, 3.33 points lost\n\n"
        "```text\n"
        "linear · forward: wrong values\n"
        "  expected  0.5 at [0, 2]\n"
        "  got       0.25\n"
        "```\n\n"
        "- hint: Is the weight transposed?\n"
        "- rule: The output is x times the transposed weight.\n"
        "- rule: Another rule.\n"
        "- see: handout §7.1\n"
        "- tests: `test_b`, `test_c`\n\n"
    )


def test_a_fault_of_the_grader_comes_first_and_costs_nothing():
    text = render(every_status(grader_error=True))
    assert text.startswith("## No points yet\n")
    assert "nobody loses a point" in text
    assert text.split("### ")[1].startswith("linear: our fault, no points lost\n")


def test_each_failure_names_its_section_of_the_handout():
    """The section is a link if the course has set the handout's address."""
    text = render(every_status(), links=LINKS)
    assert "\n- see: [handout §7.1](https://course.example/handout/07_linear.html#" in text
    assert "\n- see: handout §8.2\n" in text
    assert "see:" not in render(every_status(), sections={})
    ours = render(every_status(grader_error=True)).split("### ")[1]
    assert "see:" not in ours


def test_hostile_texts_become_no_markup():
    overrides = [override(1, reason=text) for text in HOSTILE]
    text = render(hostile(), standing(overrides=overrides, comments=hostile_comments()))
    assert kinds(text) <= EXPECTED
    assert [] == [part for part in prose(text) if LINKED.search(part)]
    assert all(len(row) == 4 for row in cells(text))
    assert {c for c in text if not c.isprintable()} <= {"\n", "\u200b", *HARMLESS}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_code_shows_exactly_the_text(text):
    shown = markdown_report.clean(text, 100)
    blank = not shown.strip()
    assert ([] if blank else [shown]) == code(markdown_report.code(text))
    assert [f"{shown}\n"] == code(markdown_report.block([shown]))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_prose_shows_the_text_as_plain_words(text):
    """The words are the same once zero-width spaces are removed."""
    shown = markdown_report.clean(text, 300).strip()
    written = f"- rule: {markdown_report.prose(text)}"
    assert kinds(written) <= EXPECTED
    words = "".join(prose(written)).replace("\u200b", "").removeprefix("rule:").strip()
    assert words == shown


def many(problems, tests, text="é` " * 300):
    """A result with so many failures that they cannot all be shown."""
    wrong = [failed(f"{i}", f"{i} {text}") for i in range(tests)]
    found = (problem_result(f"problem_{place}", "m", tests, wrong) for place in range(problems))
    return result(*found)


def test_a_long_report_is_cut_and_says_what_is_missing():
    text = render(many(5, 40))
    assert 40_000 < len(text) < 60_000
    shown = text.count("### ")
    sentence = f"{200 - shown} more failures are left out to keep this report short"
    assert f"{sentence} ({200 - shown} points, in `problem_" in text
    assert kinds(text) <= EXPECTED


def test_the_longest_texts_fit():
    long = "\U000e0001" * 30_000
    tests = [failed(long + str(i), long, about=long, rule=long + str(i), hint=long, mistake=long)
             for i in range(20)]  # fmt: skip
    found = result(*(problem_result(f"{long}{i}", long, 1, tests) for i in range(20)), name=long)
    grade = standing(points=1.0, overrides=[override(1.0, problem=long, reason=long)] * 100)
    text = render(found, grade)
    assert len(text) < 60_000
    assert text.startswith("## 1 of 15 points")
