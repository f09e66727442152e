"""The matrix of the suite's own proof: which test fails on which wrong solution, and what is not as it must be."""

import ast
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table
from rich.text import Text

KINDS = {"reference": "reference", "stub": "stub", "wrong": "wrong solution", "variant": "variant", "mutant": "mutant"}
STAYS = "# Stays:"


@dataclass(frozen=True)
class Row:
    """What came out of one trial: a submission of ours, graded on one problem.

    Attributes:
        problem: The problem's id.
        kind: One of `KINDS`.
        name: Which one of that kind.
        seed: The seed that it was graded with.
        score: Points earned.
        max_score: Points that could be earned on the trial's device.
        failed: The tests for that device that did not pass.
        complaint: What is not as it must be; empty where nothing is.
    """

    problem: str
    kind: str
    name: str
    seed: int
    score: float
    max_score: float
    failed: list[str]
    complaint: str


@dataclass
class Matrix:
    """What the tests for one device show.

    Attributes:
        rows: Every trial.
        tests: For each problem its hidden tests with the reason why each stays, where it gives one.
        owed: How many wrong solutions were left out because only tests on a CUDA device can notice them.
    """

    rows: list[Row] = field(default_factory=list)
    tests: dict[str, dict[str, str]] = field(default_factory=dict)
    owed: int = 0

    def complaints(self) -> list[str]:
        """Everything that is not as it must be."""
        return [*(row.complaint for row in self.rows if row.complaint), *self._idle_tests()]

    def alone(self, problem: str) -> dict[str, list[str]]:
        """For each test of a problem the wrong solutions that it alone fails."""
        wrong = [row for row in self.rows if row.problem == problem and row.kind == "wrong"]
        return {test: [row.name for row in wrong if row.failed == [test]] for test in self.tests[problem]}

    def _idle_tests(self) -> list[str]:
        found = []
        for problem, tests in self.tests.items():
            caught = Counter(test for row in self.rows if row.problem == problem and row.kind == "wrong" for test in row.failed)
            for test, sole in self.alone(problem).items():
                if not caught[test]:
                    found.append(f"{problem} · {test}: no wrong solution fails it")
                elif not sole and not tests[test]:
                    found.append(f"{problem} · {test}: others catch all that it catches; say why it stays ({STAYS} …)")
        return found


def tests_in(path: Path) -> dict[str, str]:
    """The test functions of a file, each with the reason given above it for why it stays, or an empty string.

    Tests that it imports from another file of hidden tests are among them, with their reason there.
    """
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tests.hidden."):
            hidden = path.parent if path.parent.name == "hidden" else path.parent.parent
            theirs = tests_in(hidden.joinpath(*str(node.module).split(".")[2:]).with_suffix(".py"))
            found |= {alias.name: theirs[alias.name] for alias in node.names if alias.name in theirs}
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            comment: list[str] = []
            while start > 0 and lines[start - 1].startswith("#"):
                start -= 1
                comment.insert(0, lines[start])
            text = " ".join(line.removeprefix(STAYS).removeprefix("#").strip() for line in comment)
            found[node.name] = text if any(line.startswith(STAYS) for line in comment) else ""
    return found


def table(matrix: Matrix) -> Table:
    """The matrix for a reader: one row a trial, and which tests it fails. Of mutants only those that no test noticed."""
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("problem", no_wrap=True)
    shown.add_column("what", no_wrap=True, overflow="ellipsis", max_width=60)
    shown.add_column("points", justify="right", no_wrap=True)
    shown.add_column("fails")
    for row in matrix.rows:
        if row.kind == "mutant" and not row.complaint:
            continue
        mark = Text("✗ ", style="bold red") if row.complaint else Text("✓ ", style="green")
        name = row.name if row.kind == row.name else f"{row.kind} {row.name}"
        more = f" and {len(row.failed) - 2} more" if len(row.failed) > 2 else ""
        fails = Text(", ".join(row.failed[:2]) + more)
        shown.add_row(row.problem, mark + Text(name), f"{row.score:.2f}/{row.max_score:g}", fails)
    return shown


def summary(matrix: Matrix) -> str:
    """The counts, one line a kind."""
    lines = []
    for kind, word in KINDS.items():
        rows = [row for row in matrix.rows if row.kind == kind]
        if not rows:
            continue
        count = f"{len(rows)} {word}{'s' if len(rows) != 1 else ''}"
        good = sum(1 for row in rows if not row.complaint)
        if kind == "reference":
            best = {row.problem: row.max_score for row in rows}
            score = {row.problem: min(r.score for r in rows if r.problem == row.problem) for row in rows}
            points = f"{sum(score.values()):g} of {sum(best.values()):g} in {len(best)} problems"
            lines.append(
                f"reference {points if any(best.values()) else f'in {len(best)} problems, which have no points on this device'}"
            )
        elif kind == "stub":
            lines.append(f"stubs {sum(row.score for row in rows):g}")
        elif kind == "mutant":
            killed = sum(bool(row.failed) for row in rows)
            lines.append(f"{count}, {killed} noticed ({100 * killed / len(rows):.1f} %), {good - killed} listed as equivalent")
        else:
            names = len({(row.problem, row.name) for row in rows})
            lines.append(f"{names} {word}s, {good} of {len(rows)} trials as they must be")
    if matrix.owed:
        lines.append(f"owed: {matrix.owed} wrong solution{'s need' if matrix.owed > 1 else ' needs'} a CUDA device")
    if not matrix.tests:
        return "\n".join(lines)
    tests = sum(map(len, matrix.tests.values()))
    sole = sum(bool(names) for problem in matrix.tests for names in matrix.alone(problem).values())
    lines.append(f"{tests} hidden tests, {sole} of them the only one to catch some wrong solution")
    return "\n".join(lines)


def as_json(matrix: Matrix) -> str:
    """The whole matrix, for programs."""
    rows = [row.__dict__ for row in matrix.rows]
    tree = {"schema": 1, "rows": rows, "tests": matrix.tests, "owed": matrix.owed, "complaints": matrix.complaints()}
    return json.dumps(tree, indent=1) + "\n"


def as_markdown(matrix: Matrix) -> str:
    """The whole matrix, for readers: a table a problem, each test with what it catches alone and in all."""
    parts = ["# What each hidden test catches", summary(matrix).replace("\n", "  \n")]
    for problem, tests in matrix.tests.items():
        alone = matrix.alone(problem)
        wrong = [row for row in matrix.rows if row.problem == problem and row.kind == "wrong"]
        parts.append(f"## {problem}: {len(tests)} tests, {len(wrong)} wrong solutions")
        parts.append(
            "| test | catches | alone | why it stays |\n|---|---|---|---|\n"
            + "\n".join(
                f"| {test} | {sum(test in row.failed for row in wrong)} | {', '.join(alone[test])} | {tests[test]} |"
                for test in tests
            )
        )
        survivors = [row for row in matrix.rows if row.problem == problem and row.kind == "mutant" and not row.failed]
        if survivors:
            parts.append("Mutants that no test notices:\n\n" + "\n".join(f"- `{row.name}`" for row in survivors))
    if complaints := matrix.complaints():
        parts.append("## Not as it must be\n\n" + "\n".join(f"- {complaint}" for complaint in complaints))
    return "\n\n".join(parts) + "\n"


FORMATS: dict[str, Callable[[Matrix], str]] = {".json": as_json, ".md": as_markdown}
