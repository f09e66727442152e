"""`python -m assignment bet`: questions of the pages, a tolerance, and a score that goes on."""

import json
import sys

import pytest

from flight import bets
from handout.site import quizzes

BET = """
<span id="section-4-2"></span><h2>4.2 Counting</h2>
<div class="bet admonition"><p class="admonition-title">Place your bet</p>
<p>How many products does <code>backward</code> of x &lt; y
compute?</p>
<ul class="simple"><li><p><strong>a</strong> one</p></li><li><p><strong>b</strong> two</p></li></ul>
<details class="answer"><summary>Answer</summary><p><strong>b.</strong> One <em>each</em>.</p>
</details></div>
"""


@pytest.fixture
def folder(tmp_path):
    """A student's folder with a chapter of two pages, and the napkin page."""
    site = tmp_path / "handout" / "site"
    site.mkdir(parents=True)
    (site / "04_flop_counting.html").write_text(BET, encoding="utf-8")
    quiz = quizzes.html("04_flop_counting")
    (site / "04_second_page.html").write_text(quiz, encoding="utf-8")
    (site / "napkin.html").write_text(quizzes.html("fits"), encoding="utf-8")
    (site / "index.html").write_text("<p>nothing to ask</p>", encoding="utf-8")
    return tmp_path


@pytest.fixture
def terminal(monkeypatch):
    """Answers typed at a terminal; after the last one, its end."""

    def typed(*words):
        said = iter(words)
        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)

        def answer(_):
            try:
                return next(said)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", answer)

    return typed


def test_the_questions_are_those_of_the_pages(folder):
    asked = bets.questions(folder / bets.SITES[0])
    assert {name: len(found) for name, found in asked.items()} == {"4": 5, "napkin": 5}
    bet, *of_quiz = asked["4"]
    assert (bet.where, bet.asks) == ("§4.2", "How many products does backward of x < y compute?")
    assert (bet.choices, bet.answer, bet.because) == ({"a": "one", "b": "two"}, "b", "One each.")
    for question, made in zip(of_quiz, quizzes.questions()["04_flop_counting"], strict=True):
        assert (question.asks, float(question.answer)) == (made.asks, made.answer)
        assert question.because == made.because
        assert list(question.hints) == made.hints


def test_an_answer_is_compared_as_on_the_page(folder):
    """A measured number may be one percent off, a whole one not; a known wrong one has its hint."""
    _, product, *_ = bets.questions(folder / bets.SITES[0])["4"]
    half = float(product.answer) / 2
    assert product.verdict("65_536")[0] is product.verdict("6.5536e4")[0] is True
    assert product.verdict("65,537") == (False, "the answer is smaller")
    assert product.verdict(f"{half}") == (False, product.hints[0][1])
    assert product.verdict("many")[0] is product.verdict("nan")[0] is None
    asked = bets.questions(folder / bets.SITES[0])["napkin"]
    question = next(one for one in asked if one.asks.endswith("(in GB)"))
    about = float(question.answer)
    assert question.verdict(f"{about * 1.0099} GB")[0]
    assert question.verdict(f"{about * 1.02}") == (False, "the answer is smaller")


def test_a_score_goes_on_where_it_stopped(folder, terminal, capsys):
    terminal("?", "a", "32768", "6.5536e4", "")
    assert bets.main(folder, ["4"]) == 130
    shown = capsys.readouterr().out
    assert "one of a, b" in shown
    assert "read as 65,536\n" in shown
    assert shown.count("Enter leaves a question for later") == 1
    assert "lost. It is b. One each." in shown
    assert "not yet: An add belongs to each multiply" in shown
    assert list(json.loads((folder / bets.KEPT).read_text()).values()) == [[False], [False, True]]
    terminal()
    assert bets.main(folder, ["4"]) == 130
    assert "place your bet" not in (shown := capsys.readouterr().out)
    assert "And shape (2, 8, 3, 4) @ shape (4, 5)?" in shown


def test_without_a_terminal_everything_is_shown_and_nothing_asked(folder, capsys):
    assert bets.main(folder, []) == 0
    shown = capsys.readouterr().out
    assert shown.count("quiz\n") == 9
    assert "10 questions; a terminal asks them (in JupyterLab: File, New, Terminal)" in shown
    assert "65,536" not in shown
    assert not (folder / bets.KEPT).exists()


def test_a_notebook_asks_below_its_cell_only(folder, terminal, monkeypatch, capsys):
    """Behind its `!` is a terminal that nobody types into, so a question would wait for ever.

    Where a program runs the notebook, Jupyter says so by an error.
    """
    terminal("a")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    assert bets.main(folder, []) == 0
    assert not (folder / bets.KEPT).exists()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    assert bets.main(folder, ["4"]) == 130
    assert list(json.loads((folder / bets.KEPT).read_text()).values()) == [[False]]

    def refused(_):
        raise NotImplementedError

    monkeypatch.setattr("builtins.input", refused)
    assert bets.main(folder, ["4"]) == 0
    assert capsys.readouterr().out.endswith("(nobody is here to answer)\n")


def test_a_comma_only_separates_thousands():
    numbers = {"1,234,567.5": 1234567.5, "−1,200": -1200.0, "1 200": 1200.0}
    assert {said: bets.number_in(said) for said in numbers} == numbers
    for said, point in {"6,1": "6.1", "3,2e1": "3.2e1", "0,123": "0.123"}.items():
        assert bets.number_in(said) == f"write {point}: a comma separates thousands"
    assert bets.number_in("1,2,3") == bets.number_in("inf") == "a number, such as 1,200 or 1.2e15"


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}'])
def test_a_broken_score_begins_anew(folder, terminal, text):
    """It is the student's own file, and nothing else depends on it."""
    (folder / bets.KEPT).write_text(text)
    terminal("b")
    assert bets.main(folder, ["4"]) == 130
    assert list(json.loads((folder / bets.KEPT).read_text()).values()) == [[True]]


def test_what_cannot_be_asked_is_told(folder, tmp_path, capsys):
    assert bets.main(folder, ["14"]) == 2
    assert "there is no page 14; there are 4, napkin" in capsys.readouterr().err
    assert bets.main(tmp_path / "elsewhere", []) == 2
    assert "handout/site has no pages" in capsys.readouterr().err
