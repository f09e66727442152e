"""The quizzes: torch's answers, a hint for each likely mistake, and no need of a script."""

import math
import re

import pytest

from flight import bets
from handout.site import agreement, quizzes
from tests.grader.sampling import every
from tests.handout.browsing import serious, unscripted

HINTED = ["01_tensor_memory", "04_flop_counting"]
OF_THE_PAGE = [asked for name, asked in quizzes.questions().items() if not name[0].isdigit()]
QUESTIONS = [question for asked in quizzes.questions().values() for question in asked]
FUNCTIONS = {name: getattr(math, name) for name in ("ceil", "floor", "sqrt", "log", "log2")}


@pytest.mark.parametrize("number", range(71))
def test_the_working_by_hand_gives_the_references_answer(number):
    """Counts are exact, and others within half of what a typed answer may differ by.

    A reason in words has only numbers of the working, of names and of the question.
    """
    question = QUESTIONS[number]
    by_hand = eval(question.working, {"__builtins__": {}}, FUNCTIONS)
    assert abs(by_hand - question.answer) <= question.within / 2 * question.answer
    assert numbers_in(question.because) <= numbers_in(question.working + question.asks)


def numbers_in(text):
    return set(re.findall(r"\d+", text)) - {"0", "1"}


def test_the_napkin_page_has_forty_problems_about_eight_questions():
    """No problem stands there twice, and what is shown is precise enough to be right if typed."""
    assert len(OF_THE_PAGE) == 8
    assert sum(map(len, OF_THE_PAGE)) == 40
    assert len({question.asks for question in QUESTIONS}) == len(QUESTIONS) == 71
    for question in QUESTIONS:
        shown = float(quizzes.written(question).partition(" ")[0].replace(",", ""))
        assert abs(shown - question.answer) <= question.within * question.answer, question.asks


@pytest.mark.parametrize("name", HINTED)
def test_a_hint_belongs_to_one_wrong_number(name):
    for question in quizzes.questions()[name]:
        meant = [question.answer, *(wrong for wrong, _ in question.hints)]
        assert len(set(meant)) == len(meant) > 3, question.asks


# Submits each text, and returns the verdicts with what screen readers are told of the field.
ANSWERED = """(field, texts) => texts.map((text) => {
  field.value = text;
  field.form.requestSubmit();
  const verdict = document.getElementById(`${field.id}-verdict`);
  return [verdict.innerText, field.getAttribute("aria-invalid")];
})"""


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("name", every(3, [*HINTED, "fits"]))
def test_the_page_says_what_is_wrong(page, address, name):
    page.goto(address(name if name in HINTED else "napkin"))
    for question in quizzes.questions()[name]:
        field = page.get_by_label(question.asks, exact=False)
        answers = {str(wrong): f"Not yet. {hint}" for wrong, hint in question.hints}
        answers |= {"": "Type a number, such as 1,200 or 1.2e15.", "-7": "Not yet. The answer is"}
        answers[f"{question.answer * (1 + question.within / 2):,}"] = f"Right. {question.because}"
        told = field.evaluate(ANSWERED, list(answers))
        for (typed, words), (verdict, invalid) in zip(answers.items(), told, strict=True):
            assert verdict.startswith(words), (question.asks, typed)
            assert invalid == str(not words.startswith("Right")).lower()
    field.fill("-7")
    page.keyboard.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert page.seen == []
    assert serious(page, f"#quiz-{name}") == []


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_without_a_script_answers_can_be_unfolded(window, address):
    with unscripted(window) as page:
        page.goto(address(HINTED[0]))
        assert page.locator(".quiz input:visible").count() == 0
        folded = page.locator(".quiz details").first
        folded.locator("summary").click()
        assert folded.locator("p").inner_text().startswith("30. One step along dimension 0")


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_the_command_asks_every_bet_and_every_question(site):
    """`python -m assignment bet` reads them from the built pages, and none is left out."""
    asked = [question for found in bets.questions(site).values() for question in found]
    pages = "".join(text for name, text in agreement.pages().items() if name[:1].isdigit())
    assert sum(bool(question.choices) for question in asked) == pages.count(":class: bet")
    answers = {q.asks: float(q.answer) for q in asked if not q.choices}
    units = [q.show.partition(" ")[2] for q in QUESTIONS]
    asks = [q.asks + f" (in {unit})" * bool(unit) for q, unit in zip(QUESTIONS, units, strict=True)]
    assert answers == dict(zip(asks, (q.answer for q in QUESTIONS), strict=True))
