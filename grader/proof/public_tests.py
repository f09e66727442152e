"""The public tests, as a measure of what students know before they hand in.

A known mistake that passes all of them is a surprise: its price is what the hidden tests take for
it. A right solution must pass them.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from grader.course import courses
from grader.course.courses import Course, Problem
from grader.grading.grade import tests_of
from grader.grading.hidden_tests import HiddenTests
from grader.grading.local_student import LocalBox
from grader.grading.undo_settings import restored
from kit.student import seed_generators_of_the_cpu

ERROR = re.compile(r"\b(?:\w*Error|\w*Exception)\b")


class _FirstFailure:
    """A pytest plugin that ends a run at its first failed test."""

    def __init__(self, told: list[str]) -> None:
        self.is_enough = False
        self._told = told

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Run one test, and undo what it does to this process; pytest calls this."""
        with restored():
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure; pytest calls this."""
        if report.failed:
            self.is_enough = True
            self._told.append(f"{report.nodeid.rpartition('::')[2]}: {_first_line(report)}")


def _first_line(report: pytest.TestReport) -> str:
    lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
    return lines[0].removeprefix("E").strip() if lines else ""


def _forget(path: Path) -> None:
    """Have the file imported anew."""
    loaded = [n for n, m in sys.modules.items() if getattr(m, "__file__", None) == str(path)]
    for name in loaded:
        del sys.modules[name]


def first_failure(
    course: Course, problem: Problem, box: LocalBox, sources: dict[str, bytes]
) -> str:
    """The first public test that a solution of ours fails, and why; empty if it passes all.

    The tests run in this process, with the same random numbers for each solution.

    Args:
        problem: The problem whose public tests are run; without any, nothing fails.
        box: Makes the solution importable.
        sources: The solution.
    """
    path = course.tests / "public" / f"test_{problem.id}.py"
    if not path.is_file():
        return ""
    told: list[str] = []
    with tests_of(course):
        _forget(path)  # the last solution may have changed what the tests share, such as a constant
        tests = HiddenTests(course.root, [str(path)])
        try:
            if tests.unreadable:
                return f"{path.name}: {tests.unreadable[0][1]}"
            box.load(course.given_modules() | sources)
            seed_generators_of_the_cpu(0)
            tests.run(tests.items, _FirstFailure(told), 0)
        finally:
            tests.close()
    return told[0] if told else ""


def unpromised(course: Course, chosen: Iterable[Problem]) -> Iterator[str]:
    """The exceptions that public tests ask for and the stub does not name."""
    for problem in chosen:
        path = course.tests / "public" / f"test_{problem.id}.py"
        if not path.is_file():
            continue
        reference = course.reference_of(problem)
        for line, error, function in _refusals(courses.tree_of(path)):
            named = raised_by(reference, function)
            asked = set(ERROR.findall(error))
            if not (named if asked <= {"Exception"} else asked & named):
                yield (
                    f"{path}:{line}: it expects {' or '.join(sorted(asked))}, which the "
                    f"docstring of {function} does not name; promise it there, or expect none"
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


def _refusals(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """The line, the exceptions and the function of each `with expect.raises(...)`.

    A block that raises an exception itself is left out: it must come through, and is no refusal.
    """
    for block in ast.walk(tree):
        if not isinstance(block, ast.With) or any(isinstance(n, ast.Raise) for n in block.body):
            continue
        for call in (item.context_expr for item in block.items):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "expect.raises":
                function = next((_text(k.value) for k in call.keywords if k.arg == "of"), "")
                if function:
                    yield call.lineno, ast.unparse(call.args[0]), function


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
