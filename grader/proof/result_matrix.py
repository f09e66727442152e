"""The result of `grader validate`, as a matrix: which test fails on which wrong solution."""

import ast
import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from grader.course import courses
from grader.proof.trial_kinds import ROUNDING, Row
from grader.results.points import HARM, MINOR

STAYS = "# Stays:"
# A mistake that costs a larger share of its problem than this must be more than a slip, and say so.
DEAR = 1 / 3
# A submission that checks no arguments may lose at most this share of the points of the course.
MOST_FOR_CHECKS = 0.03
# In a light run, mutants need no reasons, but at most one in so many may go unnoticed.
ONE_UNNOTICED_IN = 3
OF_GRADESCOPE = "release gradescope: its autograder gives the reference "
SERIOUS = tuple(HARM)[:2]


@dataclass(frozen=True)
class HiddenTest:
    """A hidden test, as its file describes it; empty for what it does not say."""

    stays: str = ""  # why it stays although other tests catch everything that it catches
    harm: str = ""  # what a failure costs in practice, a key of `points.HARM`
    points: float = 0.0  # its points, if the tests of its problem say what a failure costs


@dataclass
class Matrix:
    """What the tests for one device prove."""

    rows: list[Row] = field(default_factory=list)  # every trial
    # The hidden tests of each problem; empty in a quick run.
    tests: dict[str, dict[str, HiddenTest]] = field(default_factory=dict)
    owed: int = 0  # how many wrong solutions only tests on a CUDA device can detect
    unread: int = 0  # how many wrong solutions a student wrote and nobody has read
    # What of the course was tried besides its hidden tests, and whether all was right.
    checked: dict[str, bool] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)  # what is wrong there
    # The requirements that each problem declines, with the reasons.
    declined: dict[str, dict[str, str]] = field(default_factory=dict)
    # The most points that a known mistake may cost if it passes all public tests.
    green_may_lose: float | None = None
    points: float = math.inf  # the points of the whole course
    is_light: bool = False  # whether nothing is asked that costs the author work

    def surprising(self) -> list[Row]:
        """The rows with a complaint, except those that follow from tests that fail the reference.

        Those of the reference are first.
        """
        broken = [row for row in self.rows if row.complaint and row.kind == "reference"]
        problems = {row.problem for row in broken}
        others = [row for row in self.rows if row.complaint and row.problem not in problems]
        return [*broken, *others]

    def complaints(self) -> list[str]:
        """Everything that differs from what is required, the cause before what follows from it."""
        rows = self.surprising()
        is_broken = any(row.kind == "reference" for row in rows)
        wrong = [one for one in self.wrong if not (is_broken and one.startswith(OF_GRADESCOPE))]
        always = [*_once_each(rows), *wrong, *self._chance()]
        if self.is_light:
            return [*always, *self._unnoticed()]
        return [
            *always,
            *self._idle_tests(),
            *self._unexplained_prices(),
            *self._misplaced_prices(),
            *self._dear_checks(),
            *self._dear_surprises(),
        ]

    def wrong_solutions(self, problem: str) -> list[Row]:
        """The wrong solutions of a problem."""
        return [row for row in self.rows if row.kind == "wrong" and row.problem == problem]

    def survivors(self, problem: str) -> list[str]:
        """The mutants of a problem that no test notices."""
        rows = [row for row in self.rows if row.problem == problem and row.kind == "mutant"]
        return [row.name for row in rows if not row.failed]

    def _unnoticed(self) -> list[str]:
        counts = Counter(row.problem for row in self.rows if row.kind == "mutant")
        return [
            f"{problem}: no test notices {len(missed)} of {number} mutants, more than one in "
            f"{ONE_UNNOTICED_IN}; write tests for them"
            for problem, number in counts.items()
            if ONE_UNNOTICED_IN * len(missed := self.survivors(problem)) > number
        ]

    def dear(self) -> list[Row]:
        """The wrong solutions that cost too large a share of their problem, the worst first."""
        dear = [row for row in self.rows if row.kind == "wrong" and row.share > DEAR]
        return sorted(dear, key=lambda row: -row.share) if self.tests else []

    def _unexplained_prices(self) -> list[str]:
        return [
            f"{row.problem} · wrong {row.name}: it costs {100 * row.share:.0f} %; "
            "say in its entry why it is more than a slip (price: …), or make it cost less"
            for row in self.dear()
            if not row.reason
        ]

    def surprises(self) -> list[Row]:
        """The known mistakes that pass all public tests, the dearest first."""
        green = [row for row in self.rows if row.kind == "wrong" and row.told == ""]
        return sorted(green, key=lambda row: (-row.price, row.problem, row.name))

    def _dear_surprises(self) -> list[str]:
        most = math.inf if self.green_may_lose is None else self.green_may_lose
        return [
            f"{row.problem} · wrong {row.name}: it passes all public tests and loses "
            f"{row.price:.3f} points, more than green_may_lose = {most:g} in problems.toml; "
            "let a public test fail on it, or let it cost less"
            for row in self.surprises()
            if row.price > most + ROUNDING
        ]

    def _dear_checks(self) -> list[str]:
        asked = [
            row
            for row in self.rows
            if row.kind == "unchecked" and "unchecked" not in self.declined.get(row.problem, {})
        ]
        lost, most = sum(r.share * r.max_score for r in asked), MOST_FOR_CHECKS * self.points
        return (
            [f"argument checks cost {lost:.2f} points, more than {most:g}"] if lost > most else []
        )

    def harm_of(self, row: Row) -> str:
        """What hurts most of what a trial fails; empty if its problem's tests do not say."""
        tests = self.tests[row.problem]
        failed = {tests[test].harm for test in row.failed if test in tests}
        return next((harm for harm in HARM if harm in failed), "")

    def _misplaced_prices(self) -> list[str]:
        """Mistakes that cost more than ones that hurt more.

        One that only minor tests catch costs at most what the cheapest serious one costs; one that
        crashes, at most what the dearest costs.
        """
        found = []
        for problem in self.tests:
            by_harm: dict[str, list[Row]] = {}
            for row in sorted(self.wrong_solutions(problem), key=lambda row: row.price):
                by_harm.setdefault(self.harm_of(row), []).append(row)
            serious = [row for harm in SERIOUS for row in by_harm.get(harm, [])]
            serious.sort(key=lambda row: row.price)
            for harm in HARM if serious else ():
                most = serious[0] if harm in MINOR else serious[-1]
                found += [
                    f"{problem} · wrong {row.name} ({harm}): it costs {row.price:.2f} points, more "
                    f"than {most.name} ({self.harm_of(most)}), {most.price:.2f}; let it fail fewer "
                    "tests, or look at their classes of harm"
                    for row in by_harm.get(harm, [])
                    if harm not in SERIOUS and row.price > most.price + ROUNDING
                ]
        return found

    def _chance(self) -> list[str]:
        failed: dict[tuple[str, str], set[tuple[str, ...]]] = {}
        for row in self.rows:
            if row.kind == "unwritten":
                failed.setdefault((row.problem, row.name), set()).add(tuple(row.failed))
        return [
            f"{problem} · {name}: it fails different tests with different seeds"
            for (problem, name), s in failed.items()
            if len(s) > 1
        ]

    def alone(self, problem: str) -> dict[str, list[str]]:
        """For each test of a problem, the wrong solutions that fail this test and no other."""
        return {
            test: [row.name for row in self.wrong_solutions(problem) if row.failed == [test]]
            for test in self.tests[problem]
        }

    def needless(self, problem: str) -> list[str]:
        """The known mistakes without which the others prove as much.

        The others still fail each test, and each test alone that one of these fails alone. One
        that fails none is not meant: perhaps it could not be tried.
        """
        proves: dict[str, set[object]] = {}
        for row in self.wrong_solutions(problem):
            sole = {(test, "alone") for test in row.failed if len(row.failed) == 1}
            proves[row.name] = {*row.failed, *sole}
        kept: set[str] = set()
        while missing := set().union(*proves.values()) - set().union(*(proves[k] for k in kept)):
            kept.add(max(proves, key=lambda name: len(proves[name] & missing)))
        return [name for name in proves if proves[name] and name not in kept]

    def _idle_tests(self) -> list[str]:
        found = []
        for problem, tests in self.tests.items():
            caught = Counter(t for row in self.wrong_solutions(problem) for t in row.failed)
            for test, sole in self.alone(problem).items():
                if not caught[test]:
                    found.append(f"{problem} · {test}: no wrong solution fails it")
                elif not sole and not tests[test].stays:
                    found.append(
                        f"{problem} · {test}: other tests catch everything that it catches; "
                        f"say why it stays, in a comment above the test ({STAYS} …)"
                    )
        return found


def _once_each(rows: list[Row]) -> list[str]:
    """The complaints of these rows; one that several trials of a problem have is told once."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        alike.setdefault((row.problem, row.complaint.partition(": ")[2]), []).append(row.complaint)
    return [
        first + (f" (and {len(others)} more trials end so)" if others else "")
        for first, *others in alike.values()
    ]


def tests_in(path: Path) -> dict[str, HiddenTest]:
    """The test functions of a file, as the file describes them.

    They include tests imported from another file of hidden tests, as that file describes them.
    """
    tree = courses.tree_of(path)
    lines = courses.text_of(path).splitlines()
    found: dict[str, HiddenTest] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tests.hidden."):
            hidden = path.parents[1]
            theirs = tests_in(hidden.joinpath(*str(node.module).split(".")[2:]).with_suffix(".py"))
            found |= {
                alias.name: theirs[alias.name] for alias in node.names if alias.name in theirs
            }
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            above = takewhile(lambda line: line.startswith("#"), reversed(lines[:start]))
            comment = [*above][::-1]
            text = " ".join(line.removeprefix(STAYS).removeprefix("#").strip() for line in comment)
            stays = text if any(line.startswith(STAYS) for line in comment) else ""
            found[node.name] = HiddenTest(stays, _harm_of(node))
    return found


def _harm_of(node: ast.FunctionDef) -> str:
    marks = [
        d
        for d in node.decorator_list
        if isinstance(d, ast.Call) and ast.unparse(d.func) == "pytest.mark.harm"
    ]
    # an unknown class is refused when the test is graded.
    return str(ast.literal_eval(marks[0].args[0])) if marks and marks[0].args else ""
