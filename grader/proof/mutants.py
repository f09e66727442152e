"""Automatic mutants: small changes to the reference that a hidden test should detect.

Each mutant has one change: to a constant, a comparison, an operator, a condition, a keyword
argument or a whole statement. Changes that have no observable effect are skipped: those to
docstrings, annotations and error messages. A mutant that no test can detect is listed in
mutants.toml with the reason.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grader.base.errors import CourseFault
from grader.course import courses
from grader.solutions.fragments import is_docstring, lines_of

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A reference module with one change."""

    problem: str  # the problem whose solution was changed
    name: str  # the change, as in `Linear.forward: x @ self.weight.T -> x * self.weight.T`
    source: str  # the source of the whole changed module


def of(reference: str, problem: str) -> list[Mutant]:
    """Every mutant of a problem's solution.

    Args:
        reference: The source of the reference module.
        problem: The problem's id, which marks its regions in the reference.
    """
    tree = ast.parse(reference)
    lines = lines_of(reference, problem)
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for owner, statement in _statements(tree, ""):
        if statement.lineno not in lines:
            continue
        for before, after, source in _changes(tree, statement):
            name = f"{owner}: {before} -> {after}"
            seen[name] += 1
            found.append(
                Mutant(problem, name if seen[name] == 1 else f"{name} ({seen[name]})", source)
            )
    return found


def listed(path: Path) -> dict[str, dict[str, str]]:
    """Load the mutants that no test can detect, as {problem: {name of the mutant: reason}}.

    A course without this file has none.

    Raises:
        CourseFault: The file is wrong.
    """
    if not path.exists():
        return {}
    try:
        return msgspec.toml.decode(courses.text_of(path), type=dict[str, dict[str, str]])
    except msgspec.DecodeError as e:
        raise CourseFault(f"{path}: {e}") from None


def _statements(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield every statement with the function or class that contains it, outermost first."""
    for child in ast.iter_child_nodes(node):
        inner = owner
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{owner}.{child.name}" if owner else child.name
        if isinstance(child, ast.stmt):
            yield owner or inner, child
        yield from _statements(child, inner)


def _changes(tree: ast.Module, statement: ast.stmt) -> Iterator[tuple[str, str, str]]:
    """Yield each change of one statement as (before, after, source of the module).

    Statements inside it are left alone.
    """
    if is_docstring(statement):
        return
    if isinstance(
        statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Delete, ast.Raise)
    ):
        replacement: ast.stmt = (
            ast.Return(None) if isinstance(statement, ast.Return) else ast.Pass()
        )
        if ast.unparse(statement) != "return None":  # which is the same
            yield _head(statement), ast.unparse(replacement), _with(tree, statement, replacement)
    for node in [] if isinstance(statement, ast.Raise) else _expressions(statement):
        for changed in _changed(node):
            before, after = ast.unparse(node), ast.unparse(changed)
            if before != after:
                yield f"{_head(statement)} | {before}", after, _with(tree, node, changed)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement.

    Skip inner statements, annotations and error messages.
    """
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield node
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if field not in ("annotation", "returns", "decorator_list"):
                waiting += [
                    c
                    for c in children
                    if isinstance(c, ast.AST) and not isinstance(c, (ast.stmt, ast.JoinedStr))
                ]


def _changed(node: ast.expr) -> Iterator[ast.expr]:
    """Yield one expression with each change that applies to it."""
    new = copy.deepcopy(node)
    match new:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 2 if value else 1.0)
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            new.ops = [COMPARISONS[type(op)]()]
            yield new
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            new.op = OPERATORS[type(op)]()
            yield new
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.Call(keywords=keywords):
            for i in range(len(keywords)):
                yield ast.Call(new.func, new.args, keywords[:i] + keywords[i + 1 :])


def _with(tree: ast.Module, old: ast.stmt | ast.expr, new: ast.AST) -> str:
    """The source of the module with one node replaced by another."""
    body = [
        copy.deepcopy(node, {id(old): new})  # it takes the new one for the copy of the old one
        if node.lineno <= old.lineno <= (node.end_lineno or 0)
        else node
        for node in tree.body
    ]
    return ast.unparse(ast.Module(body, [])) + "\n"


def _head(statement: ast.stmt) -> str:
    """The start of a statement, long enough to identify it."""
    line = ast.unparse(statement).splitlines()[0]
    return line if len(line) <= 60 else line[:59] + "…"
