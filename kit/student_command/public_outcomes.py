"""The outcome of the public tests: one row per problem, the failures, and what to do next."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit import handing_in
from kit.safe_text import first, labelled, pointer
from kit.workflow_commands import Annotation

# The built handout: in the bundle, and in a clone.
SITES = ("handout/site", "handout/build/site")
# A file and perhaps a line, as in "assignment/linear.py:12 in Linear.forward".
PLACE = re.compile(r"(assignment/[\w/]+\.py)(?::(\d+))?", re.ASCII)
HEADED = re.compile(r"(Args|Returns|Raises|Example|Attributes):")
FORMULA = re.compile(r"[^.\n]{1,40} [=←] ")


@dataclass
class ProblemProgress:
    """The progress on one problem."""

    problem: dict[str, Any]  # its entry in problems.toml
    tests: int = 0  # the number of its public tests
    # For each test that has run, "passed", "not attempted" or "failed".
    ended: list[str] = field(default_factory=list)
    foreseen: str = ""  # why it would certainly earn nothing, such as "forbidden use"
    shown: bool = False  # whether its row is on the screen in full
    story: str = ""  # a sentence of the course's story, if the problem has just been done

    @property
    def passed(self) -> int:
        """The number of tests that pass."""
        return self.ended.count("passed")

    @property
    def all_ended(self) -> bool:
        """Whether each test is known to have run."""
        return 0 < self.tests <= len(self.ended)

    @property
    def status(self) -> str:
        """The status in a word or two, or "" while it is unknown."""
        ended = Counter(self.ended)
        if self.foreseen:
            return self.foreseen
        if ended["failed"]:
            return "failing"
        if ended["not attempted"]:
            return "to be finished" if ended["passed"] else "not attempted"
        return "done" if 0 < self.tests == ended["passed"] else ""


@dataclass
class Failure:
    """A failure to look at."""

    problem: dict[str, Any]  # its entry in problems.toml
    attempted: bool  # whether the student has written code for it
    text: str  # in the form of `expect.render`
    place: str  # in the student's code, or ""
    test: str  # "" if it was not a test

    def __str__(self) -> str:
        return f"{self.text}\n{labelled('test', self.test)}" if self.test else self.text

    @property
    def line(self) -> tuple[str, int]:
        """The file to look at, and its line; 0 if it is not known."""
        place = PLACE.match(self.place)
        if place is None:
            return handing_in.path_of(self.problem["module"]), 0
        return place[1], int(place[2] or 0)

    @property
    def kind(self) -> str:
        """What it says without numbers: its first line, and its hint."""
        head, *lines = self.text.splitlines()
        hint = [line for line in lines if line.startswith(labelled("hint", ""))]
        return re.sub(r"\d+", "0", "\n".join([head, *hint]))


@dataclass
class RunOutcome:
    """The outcome of a whole run."""

    rows: list[ProblemProgress]  # in the order of the handout
    failures: list[Failure]  # the tests that do not pass, in the order of the tests
    stopped: str = ""  # where by hand, such as "stopped at assignment/linear.py:40"
    notes: list[str] = field(default_factory=list)  # further sentences for the student
    whole: bool = True  # whether all problems of the course were tested
    every: bool = False  # whether all failures were shown
    # The course's own commands, each with what it does.
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> str:
        """The number of problems done, as in "3 of 18 problems done"."""
        return f"{sum(row.status == 'done' for row in self.rows)} of {len(self.rows)} problems done"

    @property
    def passed(self) -> str:
        """The number of tests that pass, as in "37 of 150 public tests pass"."""
        return (
            f"{sum(row.passed for row in self.rows)} of "
            f"{sum(row.tests for row in self.rows)} public tests pass"
        )

    @property
    def wrong(self) -> list[Failure]:
        """The wrong answers, leaving out tests that were not attempted."""
        return [failure for failure in self.failures if failure.attempted]

    @property
    def alike(self) -> list[str]:
        """The wrong answers, the first of each kind in full, with the names of the others."""
        kinds: dict[str, list[Failure]] = {}
        for failure in self.wrong:
            kinds.setdefault(failure.kind, []).append(failure)
        return [f"{one}{_named(others)}" for one, *others in kinds.values()]

    @property
    def first_failure(self) -> Failure | None:
        """The first wrong answer."""
        return next(iter(self.wrong), None)

    @property
    def to_do(self) -> Failure | None:
        """The failure to look at next: a wrong answer, or else the first one of all."""
        return self.first_failure or next(iter(self.failures), None)

    @property
    def next_step(self) -> str:
        """What the student should do next."""
        to_do = self.to_do
        if to_do is None and not self.whole:
            return "`python -m assignment` shows what is left"
        if to_do is None:
            return "\n".join(self._what_is_left())
        problem = to_do.problem
        verb = "fix" if to_do.attempted else "write"
        place = to_do.place or handing_in.path_of(problem["module"])
        shows = " --all` (all of its failures)" if to_do.attempted and not self.every else "`"
        read = f"read handout §{problem['section']}, then " if "section" in problem else ""
        steps = [f"{verb} {place}", f"{read}run `python -m assignment check {problem['id']}{shows}"]
        if not any(row.status == "done" for row in self.rows):
            steps += [f"or begin with {other}" for other in self._others()[:1]]
        return "\n".join(steps)

    def _others(self) -> list[str]:
        """The course's own commands."""
        return [f"`python -m assignment {name}`: {about}" for name, about in self.others.items()]

    def _what_is_left(self) -> Iterator[str]:
        """What to do when all problems are done."""
        yield (
            "`python -m assignment submit` makes the zip to hand in; hidden tests decide the points"
        )
        # What a command's line has in brackets holds until all problems are done.
        yield from (re.sub(r" \(.*?\)", "", line) for line in self._others())
        if any(row.problem.get("device") == "cuda" for row in self.rows):
            yield "the GPU's problems again, if you can get at one: their points are earned there"


def _named(others: list[Failure]) -> str:
    if not others:
        return ""
    names = first([re.split(r"::|\.py:\d+ ", one.test)[-1] for one in others], 2)
    return f"\n{labelled('and', f'{len(others)} more like this: {names}')}"


def addresses_of(root: Path, failure: Failure) -> Iterator[str]:
    """The addresses of a failure's section in the built handout, if it is here."""
    chapter, _, section = failure.problem.get("section", "").partition(".")
    place = f"section-{chapter}-{section}"
    for site in (root / name for name in SITES):
        for path in site.glob(f"{int(chapter):02}_*.html") if chapter else ():
            if f'id="{place}"' in path.read_text(encoding="utf-8"):
                yield f"{path.absolute().as_uri()}#{place}"


def hints(root: Path, failure: Failure) -> tuple[str, list[str]]:
    """The definition that a failure is about, and hints on it, each of which says more.

    All are from the module itself: the definition's docstring and the module's solved example.
    """
    (path, line), wanted = failure.line, failure.problem.get("functions", [])
    with suppress(OSError, ValueError, SyntaxError):
        tree = ast.parse((root / path).read_bytes())
        every = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        around = [n for n in every if n.lineno <= line <= (n.end_lineno or 0)]
        for found in [*around, *(n for n in every if n.name in wanted)][:1]:
            solved = [
                f"{path}:{n.lineno} in {n.name}" for n in every if "solved example" in _doc(n)
            ]
            where = f"{path}:{found.lineno} in {found.name}"
            parts = _hints_of(_doc(found), failure.problem.get("section", ""), where)
            return found.name, [*parts, *(f"a solved example of this kind: {s}" for s in solved)]
    return "", []


def _doc(node: ast.FunctionDef | ast.ClassDef) -> str:
    return ast.get_docstring(node) or ""


def _hints_of(docstring: str, section: str, where: str) -> Iterator[str]:
    first, *others = docstring.split("\n\n")
    headed = {part.split(":")[0]: part for part in others if HEADED.match(part)}
    rest = [part for part in others if part not in headed.values() and "Handout §" not in part]
    formulas = [part for part in rest if FORMULA.match(part)]
    rules = [part for part in rest if part not in formulas]
    worth = f"\nThe common mistakes of handout §{section} are worth a look." if section else ""
    yield f"where: {where}\n{first}{worth}"
    for name, texts in (("rule", [*rules, headed.get("Raises", "")]), ("formula", formulas)):
        if any(texts):
            yield f"{name}:\n" + "\n\n".join(filter(None, texts))
    if "Example" in headed:
        yield f"{headed['Example']}\nWork it out by hand, and print what your code has instead."


def annotated(outcome: RunOutcome) -> list[Annotation]:
    """The wrong answers as GitHub shows them beside the code, the first one of each line."""
    found: dict[tuple[str, int], Annotation] = {}
    for failure in outcome.wrong:
        one = Annotation(failure.problem["id"], str(failure), *failure.line)
        found.setdefault(failure.line, one)
    return list(found.values())


def told(
    text: str,
    problem: dict[str, Any],
    place: str = "",
    shown: Sequence[str] = (),
    inputs: str = "",
    hint: str = "",
) -> str:
    """A failure in the form of `expect.render`: what happened, where with lines of that place, for
    which inputs, and what to read.
    """
    lines = [labelled("at", place)] if place else []
    lines += [labelled("", line) for line in shown]
    lines += [labelled("inputs", inputs)] if inputs else []
    return "\n".join([text, *lines, *pointer(hint, problem.get("section", ""))])


def problem_of(test: str) -> str:
    """The id of the problem that a test, given by pytest's node id, belongs to."""
    return Path(test.split("::")[0]).stem.removeprefix("test_")
