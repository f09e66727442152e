"""The result of `grader validate`, as a matrix: which test fails on which wrong solution."""

import ast
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table
from rich.text import Text

from grader.course import courses
from kit.text import counted

KINDS = {
    "reference": "reference",
    "stub": "stub",
    "wrong": "wrong solution",
    "variant": "variant",
    "junk": "constant answer",
    "words": "reference(s) in other words",
    "unchecked": "reference(s) without checks",
    "types": "reference(s) with other types",
    "arithmetic": "reference(s) by other arithmetic",
    "unwritten": "reference(s) that return unwritten memory",
    "input": "classes of input",
    "hostile": "reference(s) with a hostile value in an answer",
    "field": "fields of answers",
    "mutant": "mutant",
}
NOT_RIGHT = ("wrong", "input")
STAYS = "# Stays:"
# A mistake that costs a larger share of its problem than this must be more than a slip, and say so.
DEAR = 1 / 3
# A submission that checks no arguments may lose at most this many points in the whole course.
MOST_FOR_CHECKS = 3.0
ROUNDING = 1e-9


@dataclass(frozen=True)
class HiddenTest:
    """A hidden test, as its file describes it.

    Attributes:
        stays: Why the test stays although other tests catch everything it catches; empty if no
            reason is given.
        harm: What a failure costs in practice, a key of `points.HARM`; empty if not said.
    """

    stays: str = ""
    harm: str = ""


@dataclass(frozen=True)
class Row:
    """The outcome of one trial: one of our own submissions, graded on one problem.

    Attributes:
        problem: The problem's id.
        kind: One of `KINDS`.
        name: The name of the trial within its kind.
        seed: The seed that it was graded with.
        score: Points earned.
        max_score: Points that could be earned on the trial's device.
        failed: The tests for that device that did not pass.
        complaint: What differs from the required outcome; empty if nothing does.
        share: The share of the problem that it lost, by the weights of the tests for that device.
        reason: Why a wrong solution costs as much as it does, or why a mutant need not be detected.
        price: The points that it lost, by the weights of the tests for that device.
        told: The first public test that it fails, and why; empty if it passes all, None if they
            were not run.
    """

    problem: str
    kind: str
    name: str
    seed: int
    score: float
    max_score: float
    failed: list[str]
    complaint: str
    share: float = 0.0
    reason: str = ""
    price: float = 0.0
    told: str | None = None


@dataclass(frozen=True)
class Claims:
    """What is known of the claims of one problem's stubs.

    Attributes:
        said: The number of claims.
        tried: The number of claims that wrong solutions contradict; the others have a reason.
        complaints: Claims without either, and entries of the file that match nothing.
    """

    said: int = 0
    tried: int = 0
    complaints: list[str] = field(default_factory=list)


@dataclass
class Matrix:
    """What the tests for one device prove.

    Attributes:
        rows: Every trial.
        tests: For each problem, its hidden tests as their file describes them; empty in a quick
            run.
        owed: The number of wrong solutions left out because only tests on a CUDA device can detect
            them.
        unread: The number of wrong solutions that a student wrote and nobody has read.
        claims: For each problem, what is known of its stubs' claims; empty in a quick run.
        checked: What of the course was tried besides its hidden tests.
        whole: What is wrong there.
        declined: For each problem, the requirements that it declines, each with the reason.
        green_may_lose: The most points that a known mistake may cost if it passes all public tests;
            None for no limit.
    """

    rows: list[Row] = field(default_factory=list)
    tests: dict[str, dict[str, HiddenTest]] = field(default_factory=dict)
    owed: int = 0
    unread: int = 0
    claims: dict[str, Claims] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    declined: dict[str, dict[str, str]] = field(default_factory=dict)
    green_may_lose: float | None = None

    def complaints(self) -> list[str]:
        """Everything that differs from what is required."""
        return [
            *self.whole,
            *_once_each([row for row in self.rows if row.complaint]),
            *(complaint for claims in self.claims.values() for complaint in claims.complaints),
            *self._idle_tests(),
            *self._unexplained_prices(),
            *self._dear_checks(),
            *self._dear_surprises(),
            *self._chance(),
        ]

    def dear(self) -> list[Row]:
        """The wrong solutions that cost too large a share of their problem, the worst first."""
        dear = [row for row in self.rows if row.kind == "wrong" and row.share > DEAR]
        return sorted(dear, key=lambda row: -row.share) if self.tests else []

    def _unexplained_prices(self) -> list[str]:
        return [
            f"{row.problem} · wrong {row.name}: it costs {100 * row.share:.0f} %; "
            "say why it is more than a slip (price: …), or make it cost less"
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
            f"{row.price:.2f} points, more than green_may_lose = {most:g} in problems.toml; "
            "let a public test fail on it, or let it cost less"
            for row in self.surprises()
            if row.price > most + ROUNDING
        ]

    def _dear_checks(self) -> list[str]:
        lost = sum(row.share * row.max_score for row in self.rows if row.kind == "unchecked")
        return (
            [f"argument checks cost {lost:.2f} points, more than {MOST_FOR_CHECKS:g}"]
            if lost > MOST_FOR_CHECKS
            else []
        )

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
        """For each test of a problem, the wrong solutions that fail this test and no other.

        A program that is wrong for one class of inputs is such a solution, too.
        """
        wrong = [row for row in self.rows if row.problem == problem and row.kind in NOT_RIGHT]
        return {
            test: [row.name for row in wrong if row.failed == [test]]
            for test in self.tests[problem]
        }

    def _idle_tests(self) -> list[str]:
        found = []
        for problem, tests in self.tests.items():
            caught = Counter(
                test
                for row in self.rows
                if row.problem == problem and row.kind in NOT_RIGHT
                for test in row.failed
            )
            for test, sole in self.alone(problem).items():
                if not caught[test]:
                    found.append(f"{problem} · {test}: no wrong solution fails it")
                elif not sole and not tests[test].stays:
                    found.append(
                        f"{problem} · {test}: other tests catch everything that it catches; "
                        f"say why it stays ({STAYS} …)"
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
            comment: list[str] = []
            while start > 0 and lines[start - 1].startswith("#"):
                start -= 1
                comment.insert(0, lines[start])
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
    # An unknown class is refused when the test is graded.
    return str(ast.literal_eval(marks[0].args[0])) if marks and marks[0].args else ""


def table(matrix: Matrix) -> Table:
    """The matrix as a table for readers: one row per solution, with the tests that it fails.

    A solution whose outcome depends on the seed has several rows. Trials made by a rule appear only
    if they have a complaint.
    """
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("problem", no_wrap=True)
    shown.add_column("what", no_wrap=True, overflow="ellipsis", max_width=60)
    shown.add_column("points", justify="right", no_wrap=True)
    shown.add_column("fails")
    seeds: dict[tuple[object, ...], list[Row]] = {}
    for row in matrix.rows:
        outcome = (row.score, row.max_score, *row.failed, bool(row.complaint))
        seeds.setdefault((row.problem, row.kind, row.name, outcome), []).append(row)
    for row, *others in seeds.values():
        if row.kind not in ("reference", "stub", "wrong", "variant") and not row.complaint:
            continue
        mark = Text("✗ ", style="bold red") if row.complaint else Text("✓ ", style="green")
        name = row.name if row.kind == row.name else f"{row.kind} {row.name}"
        name += f" ({1 + len(others)} seeds)" if others else ""
        more = f" and {len(row.failed) - 2} more" if len(row.failed) > 2 else ""
        fails = Text(", ".join(row.failed[:2]) + more)
        shown.add_row(row.problem, mark + Text(name), f"{row.score:.2f}/{row.max_score:g}", fails)
    return shown


def prices(matrix: Matrix) -> Table:
    """The known mistakes that pass all public tests, each with the points that it loses."""
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("problem", no_wrap=True)
    shown.add_column("passes all public tests", no_wrap=True, overflow="ellipsis", max_width=60)
    shown.add_column("loses", justify="right", no_wrap=True)
    shown.add_column("fails the hidden tests")
    for row in matrix.surprises():
        more = f" and {len(row.failed) - 1} more" if len(row.failed) > 1 else ""
        fails = Text(", ".join(row.failed[:1]) + more)
        shown.add_row(row.problem, Text(row.name), f"{row.price:.2f}", fails)
    return shown


def summary(matrix: Matrix) -> str:
    """The counts, one line per kind."""
    lines = []
    for kind, word in KINDS.items():
        rows = [row for row in matrix.rows if row.kind == kind]
        if not rows:
            continue
        count = counted(len(rows), word)
        good = sum(1 for row in rows if not row.complaint)
        if kind == "reference":
            best = {row.problem: row.max_score for row in rows}
            score = {
                row.problem: min(r.score for r in rows if r.problem == row.problem) for row in rows
            }
            where = counted(len(best), "problem")
            lines.append(
                f"reference {sum(score.values()):g} of {sum(best.values()):g} in {where}"
                if any(best.values())
                else f"reference in {where}, without points on this device"
            )
        elif kind == "stub":
            lines.append(f"stubs {sum(row.score for row in rows):g}")
        elif kind == "mutant":
            killed = sum(bool(row.failed) for row in rows)
            lines.append(
                f"{count}, {killed} noticed ({100 * killed / len(rows):.1f} %), "
                f"{good - killed} listed as equivalent"
            )
        elif kind == "input":
            judged = sum(bool(row.failed) for row in rows)
            refused = sum(bool(row.reason) for row in rows)
            lines.append(f"{len(rows)} {word}: {judged} tried and judged, {refused} not promised")
        elif kind == "field":
            seen = sum(bool(row.failed) and not row.complaint for row in rows)
            never = f", {good - seen} never asked for" if good > seen else ""
            lines.append(f"{len(rows)} {word}, tests look at {seen}{never}")
        else:
            names = len({(row.problem, row.name) for row in rows})
            plural = "s" if names != 1 and not word.startswith("reference") else ""
            lost = (
                f", {sum(row.share * row.max_score for row in rows):.2f} points lost"
                if kind == "unchecked"
                else ""
            )
            lines.append(f"{names} {word}{plural}, {good} of {len(rows)} trials as required{lost}")
    lines += [
        f"{row.problem} · wrong {row.name} costs {100 * row.share:.0f} %: "
        f"{row.reason or 'no reason given'}"
        for row in matrix.dear()
    ]
    if told := [row for row in matrix.rows if row.kind == "wrong" and row.told is not None]:
        green = matrix.surprises()
        dearest = f", at most {green[0].price:.2f} points each" if green else ""
        lines.append(
            f"{len(told) - len(green)} of {len(told)} wrong solutions fail a public test; "
            f"the other {len(green)} lose points in hidden tests only{dearest}"
        )
    if said := sum(claims.said for claims in matrix.claims.values()):
        tried = sum(claims.tried for claims in matrix.claims.values())
        lines.append(f"{said} claims of stubs, {tried} of them contradicted by wrong solutions")
    lines += [f"{name}: {'not ' * bool(matrix.whole)}as required" for name in matrix.checked]
    if matrix.owed:
        lines.append(
            f"not tried: {matrix.owed} wrong solution"
            f"{'s need' if matrix.owed > 1 else ' needs'} a CUDA device"
        )
    if matrix.unread:
        number = counted(matrix.unread, "wrong solution is", "wrong solutions are")
        lines.append(f"{number} `unread:` and ran in the sandbox only; no student is told of them")
    if not matrix.tests:
        return "\n".join(lines)
    tests = sum(map(len, matrix.tests.values()))
    sole = sum(bool(names) for problem in matrix.tests for names in matrix.alone(problem).values())
    lines.append(f"{tests} hidden tests, {sole} of them the only one to catch some wrong solution")
    return "\n".join(lines)


def as_json(matrix: Matrix) -> str:
    """The whole matrix as JSON, for programs."""
    rows = [row.__dict__ for row in matrix.rows]
    tree = {
        "schema": 2,
        "rows": rows,
        "tests": {
            p: {t: h.__dict__ for t, h in tests.items()} for p, tests in matrix.tests.items()
        },
        "owed": matrix.owed,
        "complaints": matrix.complaints(),
    }
    return json.dumps(tree, indent=1) + "\n"


def as_markdown(matrix: Matrix) -> str:
    """The whole matrix as Markdown, for readers.

    There is one table per problem, with what each test catches alone and in total.
    """
    parts = ["# What each hidden test catches", summary(matrix).replace("\n", "  \n")]
    for problem, tests in matrix.tests.items():
        alone = matrix.alone(problem)
        wrong = [row for row in matrix.rows if row.problem == problem and row.kind == "wrong"]
        parts.append(
            f"## {problem}: {counted(len(tests), 'test')}, {counted(len(wrong), 'wrong solution')}"
        )
        parts.append(
            "| test | catches | alone | why it stays |\n|---|---|---|---|\n"
            + "\n".join(
                f"| {test} | {sum(test in row.failed for row in wrong)} | {', '.join(alone[test])} "
                f"| {tests[test].stays} |"
                for test in tests
            )
        )
        survivors = [
            row
            for row in matrix.rows
            if row.problem == problem and row.kind == "mutant" and not row.failed
        ]
        if survivors:
            parts.append(
                "Mutants that no test notices:\n\n"
                + "\n".join(f"- `{row.name}`" for row in survivors)
            )
    if complaints := matrix.complaints():
        parts.append("## Complaints\n\n" + "\n".join(f"- {complaint}" for complaint in complaints))
    return "\n\n".join(parts) + "\n"


FORMATS: dict[str, Callable[[Matrix], str]] = {".json": as_json, ".md": as_markdown}
