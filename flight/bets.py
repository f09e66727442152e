"""`python -m assignment bet` asks the bets and quizzes of the handout, and keeps a private score.

The questions and their answers are read from the pages in the student's folder. Nothing is graded.
"""

import argparse
import hashlib
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from kit.safe_text import counted, print_anywhere
from kit.student_command import submit
from kit.student_command.public_outcomes import SITES

KEPT = ".bets.json"
IN_A_TERMINAL = "a terminal asks them (in JupyterLab: File, New, Terminal)"
# A section's heading, a bet with its answer, and a question of a quiz, in the order of the page.
PIECE = re.compile(
    r'id="section-(?P<section>\d+-\d+)"'
    r'|<div class="bet admonition">(?P<bet>.*?)<details class="answer">(?P<solution>.*?)</details>'
    r'|<form [^>]*data-answer="(?P<answer>[^"]*)" data-within="(?P<within>[^"]*)" '
    r'data-because="(?P<because>[^"]*)" data-hints="(?P<hints>[^"]*)">'
    r"\s*<label[^>]*>(?P<asks>.*?)</label>",
    re.DOTALL,
)
CHOICE = re.compile(r"<li><p><strong>(\w)</strong>(.*?)</li>", re.DOTALL)
CHOSEN = re.compile(r"<strong>(\w)\.</strong>(.*)", re.DOTALL)
UNIT = re.compile(r" \(in ([^()]+)\)$")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)


def can_ask() -> bool:
    """Whether somebody can answer: at a terminal, or below a notebook's cell.

    Behind a notebook's `!` is a terminal that nobody types into.
    """
    if "ipykernel" in sys.modules:
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and "JPY_PARENT_PID" not in os.environ


def number_in(said: str) -> float | str:
    """The number in an answer, or what to write instead. A comma only separates thousands."""
    plain = re.sub(r"[_\s]", "", said).replace("−", "-")
    plain = plain.replace(",", "") if THOUSANDS.fullmatch(plain) else plain
    point = plain.replace(",", ".")
    with suppress(ValueError):
        if math.isfinite(number := float(point)):
            return number if point == plain else f"write {point}: a comma separates thousands"
    return "a number, such as 1,200 or 1.2e15"


@dataclass(frozen=True)
class Question:
    """A question with its answer."""

    where: str  # its section, such as "§1.2", or its page
    asks: str
    answer: str  # a number, or the letter of a choice
    because: str  # the reason
    choices: dict[str, str]  # the text of each by its letter; empty where the answer is a number
    within: float = 0.0  # the share by which a number may differ
    hints: tuple[tuple[float, str], ...] = ()  # wrong numbers, each with what it means

    @property
    def key(self) -> str:
        """What the score knows it by: the same words are the same question."""
        return hashlib.sha256(self.asks.encode()).hexdigest()[:12]

    def is_over(self, tries: list[bool]) -> bool:
        """Whether it is not asked again: after the right number, or after a bet."""
        return any(tries) or bool(self.choices and tries)

    def number(self, said: str) -> float | str:
        """The number in an answer, with or without its unit, or what to write instead."""
        unit = UNIT.search(self.asks)
        return number_in(said.removesuffix(unit[1] if unit else ""))

    def verdict(self, said: str) -> tuple[bool | None, str]:
        """Whether an answer is right, and what to say of it; None if it is no answer at all."""
        if self.choices:
            letter = said.lower().rstrip(".")
            if letter not in self.choices:
                return None, f"one of {', '.join(self.choices)}"
            right = letter == self.answer
            return right, self.because if right else f"{self.answer}. {self.because}"
        number, answer = self.number(said), float(self.answer)
        if isinstance(number, str):
            return None, number
        if abs(number - answer) <= self.within * abs(answer):
            return True, self.because
        larger = f"the answer is {'smaller' if number > answer else 'larger'}"
        return False, next((hint for wrong, hint in self.hints if wrong == number), larger)


def main(root: Path, arguments: list[str]) -> int:
    """Ask what is not answered yet; return 0, 2 if there are no questions, 130 after Ctrl-C."""
    print_anywhere()
    parser = argparse.ArgumentParser(
        prog="python -m assignment bet",
        description="The handout's bets and quizzes, one after the other, with a score that nobody "
        "else sees.",
    )
    parser.add_argument("page", nargs="?", default="", help="a chapter's number, or napkin")
    parser.add_argument("--again", action="store_true", help="ask everything anew")
    chosen = parser.parse_args(arguments)
    known = questions(next((root / site for site in SITES if (root / site).is_dir()), root))
    pages = {name: found for name, found in known.items() if chosen.page in ("", name)}
    if not pages:
        there = f"there are {', '.join(known)}" if known else f"{SITES[0]} has no pages"
        print(f"bet: there is no page {chosen.page or 'of questions'}; {there}", file=sys.stderr)
        return 2
    every = [question for found in pages.values() for question in found]
    score = {} if chosen.again else read_score(root)
    try:
        _ask_all(root, every, score)
    except (KeyboardInterrupt, EOFError):
        print("\nstopped; your score is kept")
        return 130
    except NotImplementedError:  # by Jupyter, where a program runs the notebook
        print("(nobody is here to answer)")
    return 0


def questions(site: Path) -> dict[str, list[Question]]:
    """The questions of each page that has some, by the chapter's number or the page's name."""
    found: dict[str, list[Question]] = {}
    for path in [*sorted(site.glob("[0-9]*.html")), site / "napkin.html"]:
        name = str(int(path.stem[:2])) if path.stem[:1].isdigit() else path.stem
        with suppress(OSError):
            if there := list(_questions(path.read_text(encoding="utf-8"), name)):
                found[name] = [*found.get(name, []), *there]
    return found


def _questions(page: str, name: str) -> Iterator[Question]:
    where = f"the {name} page" if not name.isdigit() else f"chapter {name}"
    for piece in PIECE.finditer(page):
        if piece["section"]:
            where = f"§{piece['section'].replace('-', '.')}"
        elif piece["bet"]:
            choices = {letter: _plain(text) for letter, text in CHOICE.findall(piece["bet"])}
            asks = _plain(piece["bet"].partition("</p>")[2].partition("<ul")[0])
            if (chosen := CHOSEN.search(piece["solution"])) and choices:
                yield Question(where, asks, chosen[1], _plain(chosen[2]), choices)
        else:
            hints = tuple((wrong, hint) for wrong, hint in json.loads(unescape(piece["hints"])))
            asks, because = _plain(piece["asks"]), unescape(piece["because"])
            within = float(piece["within"])
            yield Question(where, asks, piece["answer"], because, {}, within, hints)


def _plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def read_score(root: Path) -> dict[str, list[bool]]:
    """For each question that was answered, by its key, whether each try was right."""
    with suppress(OSError, ValueError, AttributeError):
        read = json.loads((root / KEPT).read_text(encoding="utf-8"))
        return {key: tries for key, tries in read.items() if isinstance(tries, list)}
    return {}


def _ask_all(root: Path, every: list[Question], score: dict[str, list[bool]]) -> None:
    asked = [question for question in every if not question.is_over(score.get(question.key, []))]
    is_terminal = can_ask()
    if asked and is_terminal:
        print("Enter leaves a question for later; Ctrl-C, or ■ in a notebook, stops")
    for question in asked:
        _show(question)
        if is_terminal:
            _ask(root, question, score)
    if asked and not is_terminal:
        print(f"\n{counted(len(asked), 'question')}; {IN_A_TERMINAL},")
        print("or the last cell of a chapter's notebook")
        return
    tried = [tries for question in every if (tries := score.get(question.key))]
    first = sum(tries[0] for tries in tried)
    left = sum(not question.is_over(score.get(question.key, [])) for question in every)
    print(f"\n{first} of {len(tried)} right at the first try; {left} of {len(every)} left")


def _show(question: Question) -> None:
    print(f"\n{question.where}: {'place your bet' if question.choices else 'quiz'}")
    print(textwrap.fill(question.asks, 78))
    for letter, text in question.choices.items():
        print(textwrap.fill(text, 76, initial_indent=f"  {letter}  ", subsequent_indent="     "))


def _ask(root: Path, question: Question, score: dict[str, list[bool]]) -> None:
    """Ask until the answer is right; a bet is asked once, and Enter leaves a question for later."""
    while said := input("> ").strip():
        right, words = question.verdict(said)
        if right is not None:
            score.setdefault(question.key, []).append(right)
            submit.write(root / KEPT, json.dumps(score).encode())
        number = "" if question.choices else question.number(said)
        if isinstance(number, float) and (shown := f"{number:,.10g}") != said:
            print(f"read as {shown}")
        lost = "lost. It is " if question.choices else "not yet: "
        print(textwrap.fill({None: "", True: "right. ", False: lost}[right] + words, 78))
        if right or (question.choices and right is False):
            return
