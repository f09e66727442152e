"""What a stub says, sentence by sentence, and which known mistakes contradict each sentence.

The docstrings of a reference are those of its stub. A known mistake names the sentences that are
wrong for it:

    contradicts: AdamW 3 5f2a, AdamW.step 1 09e4

That is the third sentence of AdamW's docstring, and `5f2a` follows from its text. When the sentence
changes, these digits show that somebody has to read the mistake again. `grader validate --digests`
writes digits where they are missing, and the new numbers of sentences that have only moved.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grader.course.courses import Problem
from grader.solutions.mistakes import Mistake, Sentence

SECTION = re.compile(r"(Args|Returns|Raises|Example|Attributes):$")
ENTRY = re.compile(r"`?\w+`?(, `?\w+`?)*:( |$)")
ERROR = re.compile(r"\b(?:\w*Error|\w*Exception)\b")
NUMBER_IN_LIST = re.compile(r"\d+\.")
LAST_LINE = re.compile(r"Handout §")
CONTRADICTS = re.compile(r"^contradicts:(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class StubSentence:
    """One sentence of a docstring."""

    of: str  # the function, the class or the method
    number: int  # the sentence's number there, from 1
    text: str  # the sentence
    wrong: tuple[str, ...] = ()  # the known mistakes that contradict it

    @property
    def digest(self) -> str:
        """Four digits that follow from the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:4]

    @property
    def name(self) -> str:
        """As a mistake names it."""
        return f"{self.of} {self.number} {self.digest}"


def of(problem: Problem, reference: str, known: Iterable[Mistake] = ()) -> list[StubSentence]:
    """The sentences of the docstrings of a problem's functions, classes and methods.

    Args:
        reference: The source of its reference module.
        known: The mistakes that may contradict them.
    """
    wrong: dict[tuple[str, int], list[str]] = {}
    for mistake in known:
        for one in mistake.contradicts:
            wrong.setdefault((one.of, one.number), []).append(mistake.name)
    return [
        StubSentence(of, number, text, tuple(wrong.get((of, number), ())))
        for of, docstring in _docstrings(problem, reference)
        for number, text in enumerate(dict.fromkeys(_sentences(docstring)), 1)
    ]


def complaints(said: list[StubSentence], known: Iterable[Mistake]) -> Iterator[str]:
    """The sentences that mistakes contradict and that do not exist, or have changed since."""
    changed: dict[str, list[str]] = {}
    for mistake in known:
        for one in mistake.contradicts:
            here = [s for s in said if s.of == one.of]
            if one.number > len(here):
                there = f"one of its {len(here)} sentences" if here else _names(said)
                got = f"{one.number}" if here else one.of
                yield f"{mistake.where}: contradicts {one.of}: expected {there}; got {got}"
            elif one.digest and one.digest != here[one.number - 1].digest:
                changed.setdefault(_of_a_change(one, here), []).append(mistake.name)
    for text, names in changed.items():
        yield f"{text} ({', '.join(names)})"


def _names(said: list[StubSentence]) -> str:
    return f"one of {', '.join(dict.fromkeys(s.of for s in said)) or 'none'}"


def _of_a_change(one: Sentence, here: list[StubSentence]) -> str:
    """What to do about a sentence that no longer has this digest."""
    if moved := [s for s in here if s.digest == one.digest]:
        to = moved[0].number
        return f"sentence {one.number} of {one.of} is number {to} now: grader validate --digests"
    now = here[one.number - 1]
    return (
        f"{one.of}: the sentence {one.number} {one.digest} has changed to “{now.text}”; where a "
        f"mistake still contradicts it, write `contradicts: {now.name}`"
    )


def with_digests(edits: str, said: list[StubSentence]) -> str:
    """A file of known mistakes in which each sentence has its digest and its present number.

    A sentence that has changed, or does not exist, stays as it is.
    """

    def digested(part: str) -> str:
        of, number, *rest = part.split()
        here = [s for s in said if s.of == of and (s.digest in rest or not rest)]
        found = [s.name for s in here if rest or str(s.number) == number]
        return found[0] if found else part.strip()

    return CONTRADICTS.sub(
        lambda line: f"contradicts: {', '.join(map(digested, line[1].split(',')))}", edits
    )


def raised_by(reference: str, name: str) -> set[str]:
    """The exceptions that a definition's docstring names; those of a class in any of its methods.

    Args:
        reference: The source of the module.
        name: The definition, such as "train" or "MLP".
    """
    found: set[str] = set()
    for node in ast.parse(reference).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name.split(".")[0]:
            for part in ast.walk(node):
                if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
                    found |= set(ERROR.findall(ast.get_docstring(part) or ""))
    return found


def _docstrings(problem: Problem, reference: str) -> Iterator[tuple[str, str]]:
    """The docstrings of a problem's definitions and their methods, by name."""
    for node in ast.parse(reference).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in problem.functions:
            yield node.name, ast.get_docstring(node) or ""
            for part in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(part, ast.FunctionDef):
                    yield f"{node.name}.{part.name}", ast.get_docstring(part) or ""


def _sentences(docstring: str) -> Iterator[str]:
    """The sentences of a docstring, without its examples, headings and last line.

    Public tests check the examples.
    """
    section, paragraph = "", list[str]()
    for line in [*docstring.splitlines(), ""]:
        text = line.strip()
        heading = SECTION.match(text) if line == text else None
        starts = not text or heading or LAST_LINE.match(text)
        if starts or (section and ENTRY.match(text)):
            if section != "Example":
                yield from _split(" ".join(paragraph))
            paragraph = []
        if heading:
            section = heading.group(1)
        elif text and not LAST_LINE.match(text):
            is_entry = section and ENTRY.match(text)
            paragraph.append(ENTRY.sub("", text, count=1).strip() if is_entry else text)


def _split(text: str) -> list[str]:
    text = " ".join(text.split())
    parts = (s.strip() for s in re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", text))
    return [s for s in parts if s and not NUMBER_IN_LIST.fullmatch(s)]
