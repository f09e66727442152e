"""Drafts of known mistakes, from failures that none of them explains.

Students whose answers to all failed tests of a problem are equal have probably made the same
mistake. A draft is the shortest of their programs, in the format of `solutions/edits.py`. It has
no comments and no docstrings, so it names nobody. A person reads it, says what is wrong, and adds
it to the course. The grader runs known mistakes outside of the sandbox, so that a program becomes a
draft only if it imports nothing but the course's packages and a few modules that cannot do harm.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from packaging.requirements import Requirement

from grader.analysis.survey import Alike, costs
from grader.classroom.records import State
from grader.classroom.standings import Class
from grader.course.courses import Course, Problem
from grader.report.wording import clean, in_points
from grader.solutions import edits
from grader.solutions.edits import Edit
from kit.text import counted

FEWEST = 2  # students with equal answers
HARMLESS = {
    *("math", "cmath", "itertools", "functools", "operator", "collections", "contextlib"),
    *("dataclasses", "typing", "warnings", "numbers", "fractions", "statistics"),
}
FORBIDDEN = {
    *("exec", "eval", "compile", "open", "input", "breakpoint", "globals", "locals", "vars"),
    *("getattr", "setattr", "delattr", "memoryview", "exit", "quit", "load", "load_inline", "hub"),
}
DUNDERS = {"__init__", "__call__", "__len__", "__getitem__", "__iter__", "__enter__", "__exit__"}
SHARE = 1 / 3  # a mistake that costs a larger share of its problem needs a reason
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class EqualAnswers:
    """Students with equal answers to a problem.

    Attributes:
        problem: The problem.
        alike: Their answers.
        points: The points that it cost each of them.
        students: How many they are.
        programs: The definitions of each that can be a draft, the shortest first.
    """

    problem: Problem
    alike: Alike
    points: float
    students: int
    programs: list[str] = field(default_factory=list)


def groups(whole: Class) -> list[EqualAnswers]:
    """All groups of students whose failures are equal and unexplained, the largest first."""
    found: dict[Alike, EqualAnswers] = {}
    sources: dict[Alike, set[str]] = {}
    for standing in whole.standings(problems=False):
        result = whole.result(standing) if standing.state is State.GRADED else None
        for problem in result.problems if result else []:
            for alike, cost in costs(problem).items():
                if alike.mistake:
                    continue
                kind = whole.course.problem(problem.id)
                one = found.get(alike) or EqualAnswers(kind, alike, cost, 0)
                found[alike] = EqualAnswers(kind, alike, cost, one.students + 1)
                text = whole.sources(standing).get(kind.path, b"").decode("utf-8", "replace")
                sources.setdefault(alike, set()).add(text)
    for alike, group in found.items():
        programs = [program_of(text, group.problem, whole.course) for text in sources[alike]]
        group.programs.extend(sorted(filter(None, programs), key=lambda text: (len(text), text)))
    large = [group for group in found.values() if group.students >= FEWEST]
    return sorted(large, key=lambda one: (-one.students, -one.points, one.problem.id))


def written(problem: Problem, found: list[EqualAnswers]) -> str:
    """The drafts of one problem, in the format of `solutions/edits.py`."""
    head = (
        f"# Drafts of known mistakes of {problem.id}: students gave these equal wrong answers.\n"
        "# Read every line first: the grader runs known mistakes outside of the sandbox. Then say\n"
        f"# what is wrong, append it to mistakes/{problem.id}.edits, and run\n"
        f"# `grader validate --only {problem.id} --draft`.\n"
    )
    return head + "".join(_entry(n, group) for n, group in enumerate(found, 1))


def _entry(place: int, group: EqualAnswers) -> str:
    answers = [f"# {clean(f'{one.test}: {one.said}', 100)}\n" for one in group.alike.answers[:5]]
    keys = {"price": "TODO: why it costs more than a third of the problem"}
    draft = Edit(
        name=f"draft_{place}",
        says="TODO: what is wrong, in one line",
        keys=keys if group.points > SHARE * group.problem.points else {},
        source=group.programs[0],
    )
    return (
        f"\n# {counted(group.students, 'student')}, {in_points(group.points)} each\n"
        + "".join(answers)
        + edits.written(draft)
    )


def program_of(text: str, problem: Problem, course: Course) -> str:
    """The definitions of a problem in a student's module; empty if they cannot be a draft.

    They are the problem's functions, and whatever they use of the module.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    bound = {name: node for node in tree.body for name in _bound(node)}
    waiting, nodes = [name for name in problem.functions if name in bound], []
    if not waiting:
        return ""
    while waiting:
        node = bound.pop(waiting.pop(), None)
        if node is not None and node not in nodes:
            nodes.append(node)
            waiting += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    kept = [_bare(node) for node in tree.body if node in nodes]
    if not all(_is_harmless(node, course) for node in kept):
        return ""
    try:
        program = "\n\n".join(map(ast.unparse, kept)) + "\n"
        edits.written(Edit(name="draft", source=program)).encode()
    except (ValueError, RecursionError):
        return ""
    return program


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement binds."""
    if isinstance(node, Definition):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        yield from (
            one.id
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        )


def _bare(statement: ast.stmt) -> ast.stmt:
    """A statement without docstrings; comments are lost when it is parsed."""
    for node in ast.walk(statement):
        if isinstance(node, Definition) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return statement


def _is_harmless(statement: ast.stmt, course: Course) -> bool:
    """Whether a statement only computes, as far as its names tell."""
    modules: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").split(".")[0] if not node.level else "")
        names |= {str(getattr(node, "id", "")), str(getattr(node, "attr", ""))}
    hidden = {name for name in names if name.startswith("__")} - DUNDERS
    packages = {Requirement(package).name for package in course.packages}
    return not (modules - HARMLESS - packages or names & FORBIDDEN or hidden)
