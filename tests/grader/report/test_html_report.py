"""The HTML page of one submission: its numbers, its quoted lines, and hostile texts."""

import html as html_module
import re
import sys

import pytest
from rich.console import Console

from grader.base.errors import Status
from grader.report import comment_report, html_report, markdown_report, terminal_report
from grader.report.code_excerpts import MAX_LINES, excerpt
from grader.report.formats import FORMATS
from grader.report.lost_points import reasons_in
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from grader.results.result_records import Fact
from tests.grader.report.sample_results import (
    HARMLESS,
    HOSTILE,
    ended,
    every_status,
    failed,
    hostile,
    hostile_comments,
    override,
    result,
    standing,
)
from tests.grader.sampling import every
from tests.handout.browsing import serious

BROWSER = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
SECTIONS = {"linear": "7.1", "adamw": "8.2", "gpu": "13.1"}
LINKS = {"linear": "https://course.example/handout/07_linear.html#section-7-1"}
MODULE = '''import torch


def forward(x):
    return "the first one"


class Linear(torch.nn.Module):
    """A layer."""

    def __init__(self):
        """Prepare.

        def forward(self): this is a docstring
        """
        self.w = 1

    def forward(self, x):
        """Apply it.

        Many lines.
        """

        y = x @ self.w  # a comment

        return y


def forward(x):
    return 'the "second" <one>'
'''
SOURCES = {"assignment/m.py": MODULE.encode()}


def render(*arguments, sources=SOURCES, sections=SECTIONS, links=LINKS):
    """The page of a course with one module and the address of one section."""
    return html_report.render(Reported(*arguments, sources=sources, sections=sections, links=links))


def words(page):
    """The text that a reader sees on a page, in one line."""
    body = re.sub(r"<(style|head).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def quoted(about, *facts, module=MODULE):
    """The lines that the page quotes for a failure, as (number, text, whether marked)."""
    tests = [failed("a", "wrong", about=about, facts=list(facts))]
    (reason,) = reasons_in(result(problem_result("linear", "m", 1, tests)))
    found = excerpt(reason, {"assignment/m.py": module.encode()})
    if found is None:
        return None
    return [(line.number, line.html.striptags(), line.is_marked) for line in found.lines]


def calls_of(work):
    """How many functions a piece of work calls, in Python and in C."""
    count = 0

    def counting(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


AT_2 = Fact("at", "assignment/m.py:2")
LONG = {
    "nested classes": "".join(f"{' ' * i}class C{i}:\n" for i in range(85)) + "\n" * 390_000,
    "definitions": "def forward(x): pass\n" * 19_000,
    "one line": "class C0:\n" + "\t" * 399_000,
}


@pytest.mark.parametrize("module", LONG.values(), ids=LONG)
def test_the_cost_of_an_excerpt_has_an_end(module):
    """The worker names the function, so it may name classes in as many classes as it likes."""
    for about in (".".join(f"C{i}" for i in range(85)), "forward", "C0"):
        assert calls_of(lambda about=about: quoted(about, module=module)) < 150_000
        assert calls_of(lambda about=about: quoted(about, AT_2, module=module)) < 10_000


def test_the_points_come_first_then_what_to_do():
    page = render(every_status())
    assert "<title>3.33 of 15 points: ada</title>" in page
    said = words(page)
    order = ["3.33 of 15 points", "What to do next", "Points by problem", "What went wrong"]
    assert sorted(order, key=said.index) == order
    steps = said.split("What to do next")[1].split("Points by problem")[0]
    assert steps.split()[0] == "linear", steps
    assert "−3.33 points" in steps


def test_each_mistake_stands_once_with_its_rules_and_cost():
    page = render(every_status())
    assert 1 == words(page.split("What went wrong")[1]).count("forward: wrong values")
    said = words(page.split("<article")[1])
    for part in (
        "−3.33 points",
        "expected 0.5 at [0, 2]",
        "Rule The output is x times the transposed weight.",
        "Rule Another rule.",
        "Hint Is the weight transposed?",
        "Handout §7.1",
        "2 of 6 tests",
    ):
        assert part in said
    assert LINKS["linear"] in page


def test_a_fault_of_the_grader_is_ours_and_costs_nothing():
    said = words(render(every_status(grader_error=True)))
    assert said.startswith("Submission ada No points yet")
    assert "nobody loses a point" in said
    first = words(render(every_status(grader_error=True)).split("<article")[1])
    assert "our fault, costs nothing" in first
    assert "assignment/m.py" not in first


def test_remarks_are_shown():
    """Gradescope's report has the others."""
    said = words(render(every_status(), standing(points=2.4, free_days=2)))
    assert said.startswith("Submission ada 2.4 of 15 points")
    assert "Handed in late: this uses 2 free late days." in said


def test_who_has_everything_is_told_so():
    passed = result(problem_result("linear", "m", 5, [ended("a", Status.PASSED)]))
    said = words(render(passed))
    assert "Every test passes." in said
    assert "What went wrong" not in said
    lost = render(result(problem_result("linear", "m", 5, [failed("a", "wrong values")])))
    assert "Every test" not in words(lost)


def test_pending_points_are_in_no_maximum_and_no_advice():
    """Page, Markdown and comment say the maximum of the terminal; nothing is left to do."""
    done = problem_result("linear", "m", 5, [ended("a", Status.PASSED)])
    waits = problem_result("gpu", "m", 4, [ended("g", Status.DEFERRED, device="cuda")], "cuda")
    waiting = result(done, waits)
    texts = [
        one.render(Reported(waiting)) for one in (markdown_report, comment_report, terminal_report)
    ]
    page = words(render(waiting))
    for text in (page, *texts):
        assert re.search(r"\b5(\.00)? of 5\b", text)
        assert "of 9" not in text
    assert "What to do next Every test that has run passes." in page
    wrong = [failed("logic", "wrong values"), ended("g", Status.DEFERRED, device="cuda")]
    said = words(render(result(problem_result("gpu", "m", 4, wrong, "cuda"))))
    assert "costs nothing yet: a run on a GPU decides" in said


def test_who_has_begun_nothing_is_told_where_to_begin():
    stub = ended("a", Status.NOT_ATTEMPTED, about="forward")
    nothing = result(*(problem_result(name, "m", 5, [stub]) for name in ("linear", "adamw")))
    said = words(render(nothing))
    assert "Begin linear , Handout §7.1 5 points to earn" in said
    assert "Not begun, 10 points: linear, adamw." in said
    plain = render(nothing, links={})
    assert 'Handout §7.1 <span class="cost muted">5 points to earn' in plain


def test_a_page_of_a_class_is_out_of_the_classs_points():
    """Points that only a GPU can give are not in a class without one."""
    waits = ended("a", Status.DEFERRED, device="cuda")
    found = result(
        problem_result("linear", "m", 5, [ended("a", Status.PASSED)]),
        problem_result("gpu", "m", 20, [waits], device="cuda"),
    )
    grade = standing(points=5.0, max_score=5.0)
    for kind in ("html", "markdown", "comment", "terminal"):
        text = FORMATS[kind].render(Reported(found, grade, console=Console()))
        assert "5 of 5 points" in text or "5.00 of 5" in text, kind
        assert "of 25 points" not in text


def test_the_lines_around_a_place_are_quoted():
    at = Fact("at", "assignment/m.py:24 in Linear.forward")
    lines = quoted("Linear.forward", at)
    assert [(24, "y = x @ self.w # a comment", True)] == [line for line in lines if line[2]]
    assert list(range(20, 29)) == [number for number, _, _ in lines]


def test_a_wrong_answer_quotes_the_function_without_its_docstring():
    """A method is searched in its class; of two definitions with one name, the last one counts."""
    method = quoted("Linear.forward")
    assert [18, 24, 25, 26] == [number for number, _, _ in method]
    assert "y = x @ self.w # a comment" == method[1][1]
    last = [(29, "def forward(x):", False), (30, "return 'the \"second\" <one>'", False)]
    assert last == quoted("forward")
    assert "a docstring" not in str(quoted("Linear"))


def test_what_is_not_there_is_not_quoted():
    assert quoted("backward") is None
    assert quoted("Linear.backward") == quoted("Linear")
    assert quoted("") is None
    for place in ("assignment/m.py:900 in f", "assignment/m.py:0", "assignment/other.py:3",
                  "/etc/passwd:1", "assignment/../../etc/passwd:1"):  # fmt: skip
        assert quoted("backward", Fact("at", place)) is None


def test_lines_are_counted_as_python_counts_them():
    """A form feed or a line separator inside a line does not end it."""
    module = "x = 'a\x0c\u2028b'\r\n\rdef f():\n    return 1\n"
    lines = quoted("f", module=module)
    assert [(3, "def f():", False), (4, "return 1", False)] == lines
    compile(module, "m.py", "exec")


def test_a_long_function_and_long_lines_are_cut():
    module = "def f():\n" + "    x = 1\n" * 5_000 + "    y = '" + "a" * 100_000 + "'\n"
    lines = quoted("f", module=module)
    assert MAX_LINES == len(lines)
    long = f"def f():\n    y = '{'a' * 1_000_000}'\n"
    assert all(len(text) < 200 for _, text, _ in quoted("f", module=long))


def large():
    """A result in which everything fails for a different reason, and its sources."""
    text = "<&é\u202e" * 400
    facts = [Fact("at", "assignment/m.py:2 in f"), *[Fact(text, text)] * 30]

    def wrong(i):
        return failed(f"{i}", f"{i} {text}", about="f", rule=f"{i} {text}", hint=text, facts=facts)

    problems = [
        problem_result(f"problem_{place}", "m", 20, [wrong(i) for i in range(40)])
        for place in range(25)
    ]
    sources = {"assignment/m.py": ("def f():\n" + "    <&é\u202e" * 100_000).encode()}
    return result(*problems, name=text * 30), sources


def test_a_page_has_at_most_300_kilobytes():
    found, sources = large()
    page = render(found, sources=sources)
    assert len(page.encode()) <= 300_000
    assert "Further failures" in page


class TestInABrowser:
    """Tests that open the pages in Chromium."""

    pytestmark = BROWSER

    def test_no_text_of_a_stranger_becomes_more_than_text(self, opened):
        source = "\n".join(["def forward():", *("    " + text for text in HOSTILE)])
        overrides = [override(1, reason=text) for text in HOSTILE]
        grade = standing(overrides=overrides, comments=hostile_comments())
        sources = {"assignment/m.py": source.encode("utf-8", "replace")}
        page = opened(render(hostile(), grade, sources=sources))
        page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
        assert page.locator("main script, main img, main style, main iframe, main b").count() == 0
        attributes = page.evaluate(
            """() => [...new Set([...document.querySelectorAll("main *")]
                 .flatMap((e) => e.getAttributeNames()))].sort()"""
        )
        assert {name for name in attributes if name.startswith("on")} == set()
        assert "style" not in attributes
        hrefs = page.evaluate(
            """() => [...document.querySelectorAll("main a")].map((a) => a.getAttribute("href"))"""
        )
        assert [link for link in hrefs if not re.fullmatch(r"#reason-\d+", link)] == []
        shown = page.locator("main").inner_text()
        assert {c for c in shown if not c.isprintable()} <= {"\n", "\t", *HARMLESS}
        assert "<script>alert(1)</script>" in shown

    @pytest.mark.parametrize("mistake", ["", "It is wrong."])
    @pytest.mark.parametrize(("width", "scheme"), every(2, [(390, "dark"), (1400, "light")]))
    def test_axe_finds_nothing_serious(self, opened, page, width, scheme, mistake):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        at = Fact("at", "assignment/m.py:24 in Linear.forward")
        tests = [failed("z", "wrong", about="Linear.forward", facts=[at], mistake=mistake)]
        extra = problem_result("linear", "m", 1, tests)
        opened(render(result(extra) if mistake else every_status(grader_error=True)))
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_failures_are_one_reason_only_if_their_hints_and_places_are_equal():
    """Two mistakes may fail their tests with the same words."""
    at = [Fact("at", "assignment/m.py:3 in f")]
    tests = [
        failed("a", "wrong values", hint="only above the limit"),
        failed("b", "wrong values", hint="go through the generator once"),
        failed("c", "wrong values", hint="only above the limit"),
        failed("d", "wrong values", hint="only above the limit", facts=at),
        failed("e", "wrong values", hint="x", mistake="it is known"),
        failed("f", "other words", hint="y", mistake="it is known", facts=at),
    ]
    found = reasons_in(result(problem_result("linear", "m", 6, tests)))
    ids = ["".join(t.id.removeprefix("test_") for t in reason.tests) for reason in found]
    assert ids == ["ac", "ef", "b", "d"]
