"""Chapters, stubs, problems.toml and the start page agree, and any disagreement is named."""

import re

import pytest

from grader.course import courses
from handout.site import __main__ as build
from handout.site import agreement, calculator_formulas, calculators, pictures, problem_boxes

COURSE = courses.load()
PAGES, STUBS = agreement.pages(), agreement.stubs(COURSE)
CHAPTER = "05_resource_accounting.md"


def test_text_and_stubs_agree_with_the_list_of_problems():
    assert agreement.complaints(COURSE, PAGES, STUBS) == []


def test_a_box_says_what_the_list_of_problems_says():
    """What the page adds comes between the functions and the command."""
    box = problem_boxes.with_problems("```{problem} precision\nMore.\n```\n")
    assert box.startswith(
        ":::{admonition} Problem `precision` · 5 points\n:class: problem\n\nHand in"
    )
    assert (
        "`float_spec`, `underflows_to_zero`, `quantize_blocks` and `dequantize_blocks` in "
        "`assignment/precision.py`. More. Test them with\n`python -m assignment check precision`"
    ) in box
    assert "Hand in `AdamW` in" in (one := problem_boxes.with_problems("```{problem} adamw\n```"))
    assert "`assignment/optimizers.py`. Test it with\n" in one
    assert "`roofline` §5.1, 5 points · `napkin_math` §5.2, 5 points |" in PAGES["index.md"]


# What stands on a page, what would stand there instead, and the complaint.
DISAGREEING = [
    ("Problem `roofline`", "Problem `rooflines`", "no box ```{problem} roofline"),
    ("## 5.2 Napkin", "## 5.3 Napkin", "expected a heading numbered 5.2, got 5.3"),
    ("# 5 Resource", "# 6 Resource", "expected a heading numbered 5, got 6"),
    ("## 5.2 Napkin mathematics", "**Napkin**", "in section 5.1, problems.toml says 5.2"),
]


@pytest.mark.parametrize(("old", "new", "complaint"), DISAGREEING)
def test_a_page_that_disagrees_is_named(old, new, complaint):
    assert old in PAGES[CHAPTER]
    found = agreement.complaints(COURSE, PAGES | {CHAPTER: PAGES[CHAPTER].replace(old, new)}, STUBS)
    assert any(complaint in line and line.startswith(CHAPTER) for line in found), found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Handout §5.1 · `python", "Handout §5.2 · `python"),
        ("check roofline`", "check rooflin`"),
        ("see handout §5.1", "see handout §5.7"),
    ],
)
def test_a_stub_that_disagrees_is_named(old, new):
    source = STUBS["resource_accounting"]
    assert old in source
    stubs = STUBS | {"resource_accounting": source.replace(old, new, 1)}
    found = agreement.complaints(COURSE, PAGES, stubs)
    assert found
    assert all(line.startswith("assignment/resource_accounting.py:") for line in found)


def test_a_missing_chapter_is_named():
    rest = {name: text for name, text in PAGES.items() if name != CHAPTER}
    found = agreement.complaints(COURSE, rest, STUBS)
    assert any(line.startswith(f"{CHAPTER} is missing") for line in found)


def test_disagreement_fails_the_build(monkeypatch, tmp_path, capsys):
    wrong = PAGES | {CHAPTER: PAGES[CHAPTER].replace("# 5 Resource", "# 6 Resource")}
    monkeypatch.setattr(agreement, "pages", lambda: wrong)
    assert build.main(["--out", str(tmp_path / "out"), "--no-pdf"]) == 1
    assert "expected a heading numbered 5, got 6" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_picture_and_calculator_stands_on_one_page():
    """In addition, the page of all calculators contains each calculator."""
    chapters = "".join(text for name, text in PAGES.items() if name[0].isdigit())
    for name in pictures.PICTURES:
        assert (PAGES["index.md"] + PAGES["shapes.md"] + PAGES["flight.md"] + chapters).count(
            f"```{{picture}} {name}\n"
        ) == 1, name
    for name in calculator_formulas.load():
        assert chapters.count(f"```{{calculator}} {name}\n") == 1, name
        assert PAGES["calculators.md"].count(f"```{{calculator}} {name}\n") == 1, name
        assert f'id="calculator-{name}"' in calculators.html(name)


CHAPTERS = [name for name in PAGES if name[0].isdigit()]
SECTIONS = {
    section.split(" ", 1)[0]: section
    for name in CHAPTERS
    for section in re.split(r"^## (?=\d+\.\d+ |Exercises)", PAGES[name], flags=re.MULTILINE)[1:]
    if section[0].isdigit()
}
BET = re.compile(r"\A::::\{admonition\} Place your bet\n:class: bet\n\n(.+?)^::::$", re.M | re.S)


# Terms, and the page that says what they mean.
TERMS = {
    "residual stream": "shapes",
    "LM head": "shapes",
    "causal mask": "shapes",
    "KV cache": "shapes",
    "MFU": "05_resource_accounting",
    "moments": "05_resource_accounting",
    "sharding": "05_resource_accounting",
}


@pytest.mark.parametrize("term", TERMS)
def test_no_chapter_uses_a_term_before_it_is_explained(term):
    """The first chapter with a term prints it in italics or in brackets, where it is explained."""
    first = next(n for n in ("shapes.md", *CHAPTERS) if re.search(rf"\b{term}\b", PAGES[n]))
    assert first == f"{TERMS[term]}.md"
    assert re.search(rf"\*{term}\*|\({term}[;)]", PAGES[first])


def test_every_chapter_has_a_quiz():
    assert [name for name in CHAPTERS if PAGES[name].count("```{quiz} ") != 1] == []


@pytest.mark.parametrize("number", SECTIONS)
def test_a_section_opens_with_a_bet(number):
    """The bet is one question with three options, and its folded answer names one of them."""
    box = BET.match(SECTIONS[number].partition("\n")[2].strip())
    assert box, f"section {number} does not open with a bet"
    question, _, options = box[1].partition("\n\n- **a**")
    assert question.rstrip().endswith("?")
    assert re.findall(r"^- \*\*(\w)\*\* ", "- **a**" + options, re.MULTILINE) == list("abc")
    assert re.search(r"^:::\{answer\}\n\*\*[abc]\.\*\* ", options, re.MULTILINE)
