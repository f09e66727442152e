"""Right solutions as independent authors, and programs that disguise a copy as a person would."""

import ast
from collections.abc import Callable
from itertools import count, groupby

from grader.course import courses
from grader.solutions import fragments

COURSE = courses.load()
Sources = dict[str, bytes]
Disguise = Callable[[ast.Module], ast.AST]
FIELDS: dict[type[ast.AST], str] = {ast.Name: "id", ast.arg: "arg", ast.Attribute: "attr"}


def authors() -> list[Sources]:
    """The reference, and the right solutions: the first of each problem, the second, and so on."""
    found = [{p.name: p.read_bytes() for p in sorted(COURSE.reference.glob("*.py"))}]
    for problem, solutions in groupby(fragments.load(COURSE.hidden), lambda one: one.problem):
        for place, one in enumerate(solutions, 1):
            found += [{}] if place == len(found) else []
            found[place][f"{problem}.py"] = one.source.encode()
    return found


def renamed(tree: ast.Module) -> ast.AST:
    """Every variable, parameter and attribute that the file sets."""
    nodes = [node for node in ast.walk(tree) if type(node) in FIELDS]
    own = [n for n in nodes if isinstance(n, ast.arg) or isinstance(n.ctx, ast.Store)]
    new = {name: f"my_{number}" for number, name in enumerate(dict.fromkeys(map(_named, own)))}
    for node in nodes:
        setattr(node, FIELDS[type(node)], new.get(_named(node), _named(node)[1]))
    return tree


def _named(node: ast.AST) -> tuple[bool, str]:
    return isinstance(node, ast.Attribute), getattr(node, FIELDS[type(node)])


def annotated(tree: ast.Module) -> ast.AST:
    """A docstring, a print, `_ = 0` and dead code are added, and every hint that has a place."""
    added = "print('step', 1)\n_ = 0\nunused = [9 for k in 'text' if k]"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for one in node.args.args:
                one.annotation = ast.Constant("Tensor")
            body = [x for one in node.body for x in (*ast.parse(added).body, one)]
            node.body = [*ast.parse("'''My own words.'''").body, *map(_hinted, body)]
    return tree


def _hinted(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        target, hint = statement.targets[0], ast.Constant("Tensor")
        return ast.AnnAssign(target, hint, statement.value, simple=1)
    return statement


def reordered(tree: ast.Module) -> ast.AST:
    """Definitions, methods, and the statements of all bodies stand in the opposite order."""
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body.reverse()
    return tree


class _Operands(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult):
            return ast.BinOp(node.right, node.op, node.left)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
        if len(node.ops) == 1 and type(node.ops[0]) in other:
            return ast.Compare(node.comparators[0], [other[type(node.ops[0])]()], [node.left])
        return node


def operands(tree: ast.Module) -> ast.AST:
    """`b + a`, `b * a`, `b > a`"""
    return _Operands().visit(tree)


def messages(tree: ast.Module) -> ast.AST:
    """Other words in every text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = f"other {node.value}"
    return tree


class _Steps(ast.NodeTransformer):
    def __init__(self) -> None:
        self.numbers = count()

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        steps: list[ast.stmt] = []
        if isinstance(node.value, ast.Call):
            for place, argument in enumerate(node.value.args):
                if isinstance(argument, ast.Call | ast.BinOp):
                    name = f"step_{next(self.numbers)}"
                    steps.append(ast.Assign([ast.Name(name, ast.Store())], argument))
                    node.value.args[place] = ast.Name(name, ast.Load())
        return [*steps, node]


def steps(tree: ast.Module) -> ast.AST:
    """Arguments of calls get a name first."""
    return _Steps().visit(tree)


SEEN_THROUGH: dict[str, Disguise] = {
    "a formatter, comments removed": lambda tree: tree,
    "renaming": renamed,
    "docstrings, prints, hints and dead code": annotated,
    "another order": reordered,
    "operands swapped": operands,
    "other words": messages,
    "assignments split": steps,
}


def disguised(sources: Sources, *names: str) -> Sources:
    """The sources with some disguises, or with all of them."""
    found = {}
    for path, text in sources.items():
        tree = ast.parse(text)
        for name in names or SEEN_THROUGH:
            tree = ast.parse(ast.unparse(ast.fix_missing_locations(SEEN_THROUGH[name](tree))))
        found[path] = ast.unparse(tree).encode()
    return found
