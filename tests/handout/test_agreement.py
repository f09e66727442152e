"""Chapters, stubs, problems.toml and the start page agree, and any disagreement is named."""

import pytest

from grader.course import courses
from handout.site import __main__ as build
from handout.site import agreement, calculators, formulas, pictures

COURSE = courses.load()
PAGES, STUBS = agreement.pages(), agreement.stubs(COURSE)
CHAPTER = "05_resource_accounting.md"


def test_text_and_stubs_agree_with_the_list_of_problems():
    """The committed files agree with problems.toml."""
    assert agreement.complaints(COURSE, PAGES, STUBS) == []


@pytest.mark.parametrize(
    ("page", "old", "new", "complaint"),
    [
        (
            CHAPTER,
            "`roofline` · 5 points",
            "`roofline` · 6 points",
            "`roofline` is worth 6, problems.toml says 5",
        ),
        (CHAPTER, "Problem `roofline`", "Problem `rooflines`", "has a box of `rooflines`"),
        (
            CHAPTER,
            "Problem `roofline`",
            "Problem `rooflines`",
            "no box `:::{admonition} Problem `roofline`",
        ),
        (CHAPTER, "`is_compute_bound`", "`compute_bound`", "does not name `is_compute_bound`"),
        (
            CHAPTER,
            "check roofline`",
            "check rooflin`",
            "does not name `python -m assignment check roofline`",
        ),
        (
            CHAPTER,
            "`assignment/resource_accounting.py`. Devices",
            "that file. Devices",
            "does not name `assignment/resource_accounting.py`",
        ),
        (CHAPTER, "## 5.2 Napkin", "## 5.3 Napkin", "expected a heading numbered 5.2, got 5.3"),
        (CHAPTER, "# 5 Resource", "# 6 Resource", "expected a heading numbered 5, got 6"),
        (
            CHAPTER,
            "## 5.2 Napkin mathematics",
            "**Napkin mathematics**",
            "`napkin_math` is in section 5.1, problems.toml says 5.2",
        ),
        (
            "index.md",
            "`roofline` §5.1, 5 points",
            "`roofline` §5.2, 5 points",
            "index.md does not list `roofline` §5.1, 5 points",
        ),
    ],
)
def test_a_page_that_disagrees_is_named(page, old, new, complaint):
    """The check covers the id, section, points, functions, file and command."""
    assert old in PAGES[page]
    found = agreement.complaints(COURSE, PAGES | {page: PAGES[page].replace(old, new)}, STUBS)
    assert any(complaint in line and line.startswith(page) for line in found), found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Handout §5.1 · `python", "Handout §5.2 · `python"),
        ("check roofline`", "check rooflin`"),
        ("see handout §5.1", "see handout §5.7"),
    ],
)
def test_a_stub_that_disagrees_is_named(old, new):
    """The check covers the docstring and the error that a stub raises."""
    source = STUBS["resource_accounting"]
    assert old in source
    found = agreement.complaints(
        COURSE, PAGES, STUBS | {"resource_accounting": source.replace(old, new, 1)}
    )
    assert found
    assert all(line.startswith("assignment/resource_accounting.py:") for line in found)


def test_a_missing_chapter_is_named():
    """Every module needs a chapter."""
    rest = {name: text for name, text in PAGES.items() if name != CHAPTER}
    assert any(
        line.startswith(f"{CHAPTER} is missing")
        for line in agreement.complaints(COURSE, rest, STUBS)
    )


def test_disagreement_fails_the_build(monkeypatch, tmp_path, capsys):
    """The build reports the disagreement and writes nothing."""
    wrong = PAGES | {
        CHAPTER: PAGES[CHAPTER].replace("`roofline` · 5 points", "`roofline` · 6 points")
    }
    monkeypatch.setattr(agreement, "pages", lambda: wrong)
    assert build.main(["--out", str(tmp_path / "out"), "--no-pdf"]) == 1
    assert "`roofline` is worth 6, problems.toml says 5" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_picture_and_calculator_stands_on_one_page():
    """In addition, the page of all calculators contains each calculator."""
    chapters = "".join(text for name, text in PAGES.items() if name[0].isdigit())
    for name in pictures.PICTURES:
        assert (PAGES["index.md"] + PAGES["shapes.md"] + PAGES["flight.md"] + chapters).count(
            f"```{{picture}} {name}\n"
        ) == 1, name
    for name in formulas.load():
        assert chapters.count(f"```{{calculator}} {name}\n") == 1, name
        assert PAGES["calculators.md"].count(f"```{{calculator}} {name}\n") == 1, name
        assert f'id="calculator-{name}"' in calculators.html(name)


@pytest.mark.parametrize("page", [name for name in PAGES if name[0].isdigit()])
def test_every_chapter_has_its_parts(page):
    """Each chapter has a figure, headings and a box about Wren; see test_teaching for the rest."""
    text = PAGES[page]
    assert "```{picture}" in text
    assert text.count("\n### ") >= 3
    assert text.count(":class: wren") == 1
