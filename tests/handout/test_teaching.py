"""Each section asks before it explains, and each chapter has a story and a ladder of exercises."""

import re

import pytest

from handout.site import agreement

PAGES = {name: text for name, text in agreement.pages().items() if name[0].isdigit()}
SECTIONS = {
    section.split(" ", 1)[0]: section
    for text in PAGES.values()
    for section in re.split(r"^## (?=\d+\.\d+ |Exercises)", text, flags=re.MULTILINE)[1:]
    if section[0].isdigit()
}
BET = re.compile(r"\A::::\{admonition\} Place your bet\n:class: bet\n\n(.+?)^::::$", re.M | re.S)
TAKE_AWAY = re.compile(r":::\{admonition\} Take away\n:class: takeaway\n\n([^:]+?)\n:::\Z")
STORY = re.compile(
    r"^:::\{admonition\} A true story[^\n]*\n:class: story\n\n(.+?)^:::$", re.M | re.S
)
RUNGS = ["Check", "Think", "Think", "Measure", "Open"]


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
    texts = {"shapes.md": agreement.pages()["shapes.md"], **PAGES}
    first = next(name for name, text in texts.items() if re.search(rf"\b{term}\b", text))
    assert first == f"{TERMS[term]}.md"
    assert re.search(rf"\*{term}\*|\({term}[;)]", texts[first])


@pytest.mark.parametrize("number", SECTIONS)
def test_a_section_opens_with_a_bet(number):
    """The bet is one question with three options, and its folded answer names one of them."""
    box = BET.match(SECTIONS[number].partition("\n")[2].strip())
    assert box, f"section {number} does not open with a bet"
    question, _, options = box[1].partition("\n\n- **a**")
    assert question.rstrip().endswith("?")
    assert re.findall(r"^- \*\*(\w)\*\* ", "- **a**" + options, re.MULTILINE) == list("abc")
    assert re.search(r"^:::\{answer\}\n\*\*[abc]\.\*\* ", options, re.MULTILINE)


@pytest.mark.parametrize("number", SECTIONS)
def test_a_section_ends_with_one_line_to_take_away(number):
    """The line is a single short paragraph."""
    box = TAKE_AWAY.search(SECTIONS[number].strip())
    assert box, f"section {number} does not end with a line to take away"
    assert "\n\n" not in box[1]
    assert len(re.sub(r"\]\{#\w+\}", "", box[1])) <= 180


@pytest.mark.parametrize("page", PAGES)
def test_a_chapter_tells_one_true_story(page):
    """The story cites its source, and at least one surprise of the chapter is marked."""
    stories = STORY.findall(PAGES[page])
    assert len(stories) == 1
    assert "{cite:" in stories[0]
    assert ":class: surprise\n" in PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_exercises_form_a_ladder(page):
    """From a quick check to an open question, each with an answer; measuring has code."""
    exercises = PAGES[page].partition("\n## Exercises\n")[2]
    parts = re.split(r"^\d\. ", exercises, flags=re.MULTILINE)[1:]
    rungs = [re.match(r"\*\*(\w+)\.\*\* ", part) for part in parts]
    named = [rung[1] for rung in rungs if rung]
    assert len(named) == len(parts), "an exercise does not say which rung it is"
    assert sorted(named, key=RUNGS.index) == named
    assert set(RUNGS) == set(named)
    assert named.count("Think") >= 2
    for part in parts:
        assert part.count(":::{answer}") == 1
    assert any("```python" in part for part in parts if part.startswith("**Measure.**"))
