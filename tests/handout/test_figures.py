"""Every figure of the handout is computed, every block of its code runs, and a changed digit is noticed."""

from importlib import import_module

import pytest

from handout.site import agreement
from tests.handout import chapters
from tests.handout.claims import CODE, COURSE, DIGITS, HANDOUT, Claims, n, run_code

PAGES = sorted(path.name for path in HANDOUT.glob("*.md"))


def claims_of(page):
    """The claims of a page."""
    name = page.removesuffix(".md")
    return import_module(f"{chapters.__name__}.c{name}" if name[0].isdigit() else f"{chapters.__name__}.{name}").Chapter()


def text_of(page):
    """The Markdown of a page."""
    return (HANDOUT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_is_computed(page):
    """Each digit lies in a claim; each claim is in the text."""
    assert claims_of(page).complaints(text_of(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_runs(page):
    """And prints what stands there, on the reference."""
    assert run_code(page, text_of(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_digit_is_noticed(page):
    """Each digit of the text in turn, one higher."""
    claims, text = claims_of(page), text_of(page)
    code = {i for block in CODE.finditer(text) for i in range(*block.span())}
    unnoticed = []
    for i, c in enumerate(text):
        if c in DIGITS and i not in code and not claims.complaints(changed(text, i)) and not agreement_notices(page, text, i):
            unnoticed.append(text[max(0, i - 40) : i + 20])
    assert unnoticed == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_changed_digit_of_code_is_noticed(page):
    """Each digit of the code blocks in turn: another result, or an error."""
    text = text_of(page)
    unnoticed = []
    for block in CODE.finditer(text):
        for i in range(*block.span(1)):
            if text[i].isdigit() and not run_code(page, changed(text, i)):
                unnoticed.append(text[max(0, i - 40) : i + 20])
    assert unnoticed == []


def agreement_notices(page, text, i):
    """Whether the change makes the page disagree with problems.toml or the stubs."""
    texts, stubs = agreement.pages(), agreement.stubs(COURSE)
    before = agreement.complaints(COURSE, texts, stubs)
    return set(agreement.complaints(COURSE, texts | {page: changed(text, i)}, stubs)) - set(before)


def changed(text, i):
    """The text with the digit at i replaced by the next one."""
    return text[:i] + DIGITS[(DIGITS.index(text[i]) + 1) % len(DIGITS)] + text[i + 1 :]


def test_a_digit_that_nothing_computes_is_refused():
    """In the text and in a claim."""
    claims = Claims("page.md")
    claims.says(f"it takes {n(2 * 3)} bytes")
    assert claims.complaints("So it takes\n6 bytes.") == []
    assert claims.complaints("So it takes 7 bytes.") == [
        "page.md does not say: it takes 6 bytes",
        "page.md: nothing computes '7' in: …So it takes 7 bytes.…",
    ]
    assert claims.complaints("So it takes 16 bytes.") != []
    with pytest.raises(AssertionError, match="not computed"):
        claims.says("it takes 6 bytes")


@pytest.mark.parametrize("nothing", [[], 12, [0.5]])
def test_a_formula_that_nothing_checks_is_refused(nothing):
    """Only comparisons count, and at least one."""
    with pytest.raises(AssertionError, match="nothing checks"):
        Claims("page.md").formula("2 + 2", nothing)
    with pytest.raises(AssertionError, match="does not hold"):
        Claims("page.md").formula("2 + 2", [True, False])


def test_code_that_prints_something_else_is_noticed():
    """A doctest's complaint, with the line."""
    assert run_code("page.md", "```python\n>>> 1 + 1\n2\n```\n") == []
    assert "Expected:\n    3\nGot:\n    2\n" in "".join(run_code("page.md", "```python\n>>> 1 + 1\n3\n```\n"))
