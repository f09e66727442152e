"""Every figure of the handout is computed, its code runs, and a changed digit is noticed."""

import gc
import re
from functools import cache
from importlib import import_module

import pytest

from grader.base.markdown_figures import MARK, without_marks
from handout.site import agreement
from tests.grader.sampling import every
from tests.handout import chapters
from tests.handout.chapters import small_pages
from tests.handout.page_figures import CODE, COURSE, DIGITS, HANDOUT, Figures, run_code, session

# One worker computes the figures of a page, once for all tests.
PAGES = [
    pytest.param(path.name, marks=pytest.mark.xdist_group(path.name), id=path.name)
    for path in sorted(HANDOUT.glob("*.md"))
]
SOME_DIGITS = pytest.mark.parametrize("one_in", [6, pytest.param(1, marks=pytest.mark.proof)])


@pytest.fixture(autouse=True, scope="module")
def quick_collections():
    """Leave what has been imported out of the collections of the reference's peak_memory."""
    gc.freeze()
    yield
    gc.unfreeze()


@cache
def figures_of(page):
    if page in small_pages.OF_PAGE:
        return small_pages.OF_PAGE[page](page)
    name = page.removesuffix(".md")
    module = f"{chapters.__name__}.{'c' * name[0].isdigit()}{name}"
    return import_module(module).Chapter(page)


def text_of(page):
    return (HANDOUT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_is_computed(page):
    found = "\n".join(figures_of(page).complaints(text_of(page)))
    assert not found, found


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_runs(page):
    assert session(page)[0] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", every(3, PAGES))
@SOME_DIGITS
def test_a_changed_digit_is_noticed(page, one_in):
    """Digits of the text in turn are increased by two, because 0 and 1 need no mark."""
    figures, text = figures_of(page), text_of(page)
    code = {i for block in CODE.finditer(text) for i in range(*block.span())}
    digits = [i for i, c in enumerate(text) if c in DIGITS and i not in code]
    unnoticed = []
    for i in digits[::one_in]:
        if not any(figures.complaints(changed(text, i, by=2))) and not agreement_notices(
            page, text, i
        ):
            unnoticed.append(text[max(0, i - 40) : i + 20])
    assert unnoticed == []


@pytest.mark.slow
@pytest.mark.parametrize("page", every(3, PAGES))
@SOME_DIGITS
def test_a_changed_digit_of_code_is_noticed(page, one_in):
    text = text_of(page)
    digits = [
        (i, block)
        for block in CODE.finditer(text)
        for i in range(*block.span("code"))
        if text[i].isdigit()
    ]
    unnoticed = []
    for i, block in digits[::one_in]:
        # Code after the changed block can stay as it is.
        if not run_code(page, changed(text, i)[: block.end()])[0]:
            unnoticed.append(text[max(0, i - 40) : i + 20])
    assert unnoticed == []


def agreement_notices(page, text, i):
    texts, stubs = agreed()
    other = texts | {page: without_marks(changed(text, i, by=2))}
    return agreement.complaints(COURSE, other, stubs) != []


@cache
def agreed():
    texts, stubs = agreement.pages(), agreement.stubs(COURSE)
    assert agreement.complaints(COURSE, texts, stubs) == []
    return texts, stubs


def changed(text, i, by=1):
    return text[:i] + DIGITS[(DIGITS.index(text[i]) + by) % len(DIGITS)] + text[i + 1 :]


@pytest.mark.parametrize("page", PAGES)
def test_words_can_be_changed_without_touching_python(page):
    """Every letter of plain text may be replaced by an x.

    Figures, code, headings, boxes, tables, links and names with digits stay unchanged.
    """
    code, lines = r"^ *```.*?^ *```$|`[^`]*`", r"^(?:#|:::|\|)[^\n]*"
    kept = rf"{MARK.pattern}|{code}|{lines}|\[[^\]]*\]\([^)]*\)|\w*[{DIGITS}][\w.-]*"
    kept_or_letter = re.compile(rf"(?P<kept>{kept})|[a-z]", re.DOTALL | re.MULTILINE)
    other = kept_or_letter.sub(lambda m: m["kept"] or "x", text_of(page))
    assert other.count("x") > 50
    assert [*figures_of(page).complaints(other)] == []


def test_only_the_numbers_zero_and_one_need_no_mark():
    figures = Figures("page.md")
    assert [*figures.complaints("From 0 to 1, `stride[d + 1]`, d − 1 and dimension 0.")] == []
    for number in ("2", "10", "0.1", "1,000", "¹", "x1", "-2"):
        assert len([*figures.complaints(f"From 0 to {number}.")]) == 1


COMPLAINTS = [
    ("between x − ε and x\n+ ε.", "page.md: a line that begins with a plus becomes a list: '+ ε.'"),
    ("So\nit takes [7]{#size} bytes.", "page.md:2: size: expected '6', got '7'"),
    ("[6]{#size}, not 8.", "page.md:1: nothing computes '8.' in: …[6]{#size}, not 8.…"),
    ("| a | b |\n|---|---|\n| 0, 1 |\n",
     "page.md: expected as many cells as the table's head has, got: | 0, 1 |"),
    ("[6]{#size} and\n[6]{#sizes}", "page.md:2: sizes: expected a value with this id in "
     "tests/handout/chapters, got none for '6'"),
    ("nothing", "page.md: size: expected figures with the values ['6', '6'], got 0 figures"),
    ("[6]{#size} 6]{#size}", "page.md:1: nothing computes '6' in: …[6]{#size} 6]{#size}…"),
    ("[6]{#size} six]{#size}", "page.md:1: a figure begins nowhere in: …[6]{#size} six]{#size}…"),
    ("[6]{#size} [chapter 6](05_resource_accounting.md)", "nothing computes '6' in"),
    ("[6]{#size} [chapter 5](05_resource_accountin.md)", "computes '05_resource_accountin.md' in"),
    ("[6]{#size} [§[5.2]{#section_napkin_math}](04_flop_counting.md)",
     "expected a link to the page of §5.2, got 04_flop_counting.md"),
    ("[6]{#size} [5 Resources](05_resource_accounting.md)", "nothing computes '5' in"),
    ("[2]{#row} [1]{#row}", "row: expected '1', got '2'"),
    ("[1]{#row}", "page.md: row: expected figures with the values ['1', '2'], got 1 figures"),
    ("[1]{#row} [2]{#row} [2]{#row}", "expected no more than 2 figures with this id, got '2'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "complaint"), COMPLAINTS)
def test_text_and_values_have_the_same_figures(text, complaint):
    figures = Figures("page.md")
    for row in (1, 2):
        figures.gives(size=6, row=row)
    assert complaint in "".join(figures.complaints(text))
    assert [*figures.complaints("[1]{#row} [2]{#row} [6]{#size} [6]{#size}")] == []


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("1024", 1025, "1025"),
        ("143", 143.926, "144"),
        ("−6.5", 6.5, "6.5"),
        ("2⁻²⁴", 2.0**-25, "2.9802322387695312e-08"),
        ("3 · 2 = 1.5", (3, 2, 1.5), "an equation that holds"),
        ("3 / · 2 = 1.5", (3, 2, 1.5), "an equation that holds"),
        ("3 / 2 + 1.5", (3, 2, 1.5), "an equation that holds"),
        ("3", (3, 4), "3 4"),
        ("3 and 4", (3,), "3 and "),
        ("3 bytes", 3, "3"),
    ],
)  # fmt: skip
def test_the_page_decides_how_a_number_is_written(text, value, expected):
    figures = Figures("page.md")
    figures.gives(size=value)
    said = [f"page.md:1: size: expected {expected!r}, got {text!r}"]
    assert [*figures.complaints(f"[{text}]{{#size}}")] == (said if expected != text else [])


@pytest.mark.parametrize(
    ("marked", "read"),
    [
        ("[16]{#bytes} bytes", "16 bytes"),
        ("[[[3, 0],\n[2, 7]]]{#matrix}", "[[3, 0],\n[2, 7]]"),
        ("[§[5.2]{#section}](page.md)", "[§5.2](page.md)"),
        ("`x[1:]` and [`x[1:, ::2]` | [1]]{#row}", "`x[1:]` and `x[1:, ::2]` | [1]"),
        (r"$[\frac{1}{2}]{#half}$", r"$\frac{1}{2}$"),
    ],
)
def test_no_reader_sees_a_mark(marked, read):
    assert without_marks(marked) == read


@pytest.mark.parametrize("nothing", [[], 12, [0.5]])
def test_what_nothing_checks_or_computes_is_refused(nothing):
    with pytest.raises(AssertionError, match="nothing checks"):
        Figures("page.md").formula("sum", "2 + 2", nothing)
    with pytest.raises(AssertionError, match="does not hold"):
        Figures("page.md").formula("sum", "2 + 2", [True, False])
    with pytest.raises(AssertionError, match="a digit of size is not computed: 6 bytes"):
        Figures("page.md").gives(size="6 bytes")


def test_code_that_prints_something_else_is_noticed():
    assert run_code("page.md", "```python\n>>> 1 + 1\n2\n```\n")[0] == []
    said, _ = run_code("page.md", "```python\n>>> 1 + 1\n3\n```\n")
    assert "Expected:\n    3\nGot:\n    2\n" in "".join(said)
