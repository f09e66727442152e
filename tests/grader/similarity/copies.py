"""Programs made at random, and programs that disguise copied code, as a copier would by hand."""

import ast
import copy
import itertools
import random
from collections.abc import Callable

Sources = dict[str, str]
SWAPPED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq,
           ast.NotEq: ast.NotEq}  # fmt: skip
METHODS = {
    ast.MatMult: "torch.matmul",
    ast.Add: "operator.add",
    ast.Sub: "operator.sub",
    ast.Mult: "operator.mul",
    ast.Div: "operator.truediv",
    ast.Pow: "operator.pow",
}
SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def parsed(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


class Bodies(ast.NodeTransformer):
    """Changes each list of statements inside functions with `change(body, rng, inside)`."""

    def __init__(self, rng: random.Random, change: Callable) -> None:
        self.rng, self.change, self.inside = rng, change, 0

    def visit(self, node: ast.AST) -> ast.AST:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        self.inside += is_function
        self.generic_visit(node)
        if self.inside:
            for name in ("body", "orelse"):
                if isinstance(body := getattr(node, name, None), list) and body:
                    docs = _docstring(body) if is_function and name == "body" else []
                    setattr(node, name, [*docs, *self.change(body[len(docs) :], self.rng)])
        self.inside -= is_function
        return node


def _docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return [first] if is_text and isinstance(first.value.value, str) else []


def bodies(change: Callable) -> Callable:
    """A disguise that changes lists of statements."""
    return lambda tree, rng: Bodies(rng, change).visit(tree)


def nodes(*kinds: type[ast.AST]) -> Callable:
    """A disguise that replaces nodes of these kinds, inside functions and not in annotations."""

    def made(change: Callable) -> Callable:
        class Changed(ast.NodeTransformer):
            inside = 0

            def visit(self, node: ast.AST) -> ast.AST:
                if isinstance(node, ast.arguments):
                    return node
                if isinstance(node, ast.FunctionDef):
                    self.inside += 1
                    node.body = [self.visit(one) for one in node.body]
                    self.inside -= 1
                    return node
                if isinstance(node, ast.AnnAssign):
                    node.value = node.value and self.visit(node.value)
                    return node
                if isinstance(node, ast.JoinedStr):
                    return node
                self.generic_visit(node)
                return change(node) if self.inside and isinstance(node, kinds) else node

        return lambda tree, rng: Changed().visit(tree)

    return made


# --- names and words ------------------------------------------------------------------------------


def renamed(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Every local variable, and every function that begins with an underscore."""
    helpers = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
               and n.name.startswith("_") and not n.name.startswith("__")}  # fmt: skip
    numbers = itertools.count()
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
        outer = {name for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal)
                 for name in n.names}  # fmt: skip
        arguments = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
        new = sorted(_names(function, ast.Store) - arguments - outer)
        names = {name: f"my_{next(numbers)}" for name in new if not name.startswith("my_")}
        for n in ast.walk(function):
            if isinstance(n, ast.Name):
                n.id = names.get(n.id, n.id)
    for n in ast.walk(tree):
        if isinstance(n, ast.FunctionDef) and n.name in helpers:
            n.name = f"own{n.name}"
        elif isinstance(n, ast.Name) and n.id in helpers:
            n.id = f"own{n.id}"
        elif isinstance(n, ast.Attribute) and n.attr in helpers:
            n.attr = f"own{n.attr}"
    return tree


def annotated(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Docstrings, prints and type hints are added."""

    def change(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            is_first = not found and isinstance(one, ast.Assign) and len(one.targets) == 1
            if is_first and isinstance(one.targets[0], ast.Name):
                one = ast.AnnAssign(one.targets[0], load("object"), one.value, 1)
            if isinstance(one, SIMPLE) and rng.random() < 0.5:
                found += parsed(f"print('step', {rng.randrange(99)})")
            found.append(one)
        return found

    tree = Bodies(rng, change).visit(tree)
    for n in ast.walk(tree):
        if isinstance(n, ast.FunctionDef):
            n.body = [*parsed(f"'''My own explanation {rng.random()}.'''"),
                      *n.body[len(_docstring(n.body)):]]  # fmt: skip
    return tree


def messages(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Other words in errors."""
    for n in ast.walk(tree):
        if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call):
            n.exc.args = [ast.Constant(f"something is wrong: {rng.random()}") for _ in n.exc.args]
    return tree


# --- order ----------------------------------------------------------------------------------------


def reordered(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Methods, and functions after the last class (annotations need classes), in another order."""
    last = max((i for i, n in enumerate(tree.body) if isinstance(n, ast.ClassDef)), default=0)
    functions = [i for i, n in enumerate(tree.body) if isinstance(n, ast.FunctionDef)]
    places = [i for i in functions if i > last]
    moved = [tree.body[i] for i in places]
    rng.shuffle(moved)
    for i, one in zip(places, moved, strict=True):
        tree.body[i] = one
    for n in ast.walk(tree):
        if isinstance(n, ast.ClassDef):
            methods = [one for one in n.body if isinstance(one, ast.FunctionDef)]
            rest = [one for one in n.body if one not in methods]
            rng.shuffle(methods)
            n.body = [*rest, *methods]
    return tree


@nodes(ast.BinOp, ast.Compare)
def operands(node: ast.BinOp | ast.Compare) -> ast.AST:
    """b + a, b * a, b > a"""
    if isinstance(node, ast.BinOp):
        texts = any(
            isinstance(n, ast.List | ast.Tuple) or isinstance(getattr(n, "value", None), str)
            for n in (node.left, node.right)
        )
        if isinstance(node.op, ast.Add | ast.Mult) and not texts:
            return ast.BinOp(node.right, node.op, node.left)
    elif len(node.ops) == 1 and type(node.ops[0]) in SWAPPED:
        return ast.Compare(node.comparators[0], [SWAPPED[type(node.ops[0])]()], [node.left])
    return node


def _names(tree: ast.AST, kind: type) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}


@bodies
def statements(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """Neighbours that assign different variables, and use none of the other's, change places."""
    body, at = list(body), 0
    while at + 1 < len(body):
        one, other = body[at], body[at + 1]
        plain = all(
            isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) for s in (one, other)
        )
        if plain:
            stored = [_names(s, ast.Store) for s in (one, other)]
            loaded = [_names(s, ast.Load) for s in (one, other)]
            if not (stored[0] & (stored[1] | loaded[1]) or stored[1] & loaded[0]):
                body[at], body[at + 1] = other, one
                at += 1
        at += 1
    return body


@bodies
def negated(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`if not c: B else: A`; and what follows `if c: continue` goes into `if not c:`."""
    found: list[ast.stmt] = []
    for place, one in enumerate(body):
        if isinstance(one, ast.If):
            test = ast.UnaryOp(ast.Not(), one.test)
            if one.orelse:
                one = ast.If(test, one.orelse, one.body)
            elif (
                isinstance(one.body[-1], ast.Continue) and len(one.body) == 1 and body[place + 1 :]
            ):
                return [*found, ast.If(test, body[place + 1 :], [])]
        found.append(one)
    return found


# --- nothing added --------------------------------------------------------------------------------


@bodies
def no_ops(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`_ = 0` after each statement."""
    return [x for one in body for x in (*parsed("_ = 0"), one)]


@bodies
def dead_code(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """Values that nothing uses, and branches that never run."""
    found: list[ast.stmt] = []
    for one in body:
        n, m = rng.randrange(9), rng.randrange(9)
        found += parsed(
            rng.choice([
                f"unused_{n} = [k * {n} for k in range({m})]",
                f"if 0:\n    unused_{n} = max({n}, {m}) + len(str({m}))",
                f"unused_{n} = ({n} + {m}) ** 2 if {n} > {m} else {n} - {m}",
                f"while False:\n    unused_{m} = sum(range({n}))",
            ])
        )  # fmt: skip
        found.append(one)
    return found


# --- other forms ----------------------------------------------------------------------------------


@bodies
def while_for(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`it = iter(xs)`, and `while True:` with next(); a range counts up."""
    found: list[ast.stmt] = []
    for one in body:
        jumps = isinstance(one, ast.For) and any(isinstance(n, ast.Continue) for n in ast.walk(one))
        if isinstance(one, ast.For) and not one.orelse and isinstance(one.target, ast.Name):
            of = one.iter
            simple = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and \
                of.func.id == "range" and len(of.args) == 1  # fmt: skip
            if simple and not jumps:
                found += [
                    assign(one.target.id, ast.Constant(0)),
                    ast.While(ast.Compare(load(one.target.id), [ast.Lt()], of.args),
                              [*one.body, *parsed(f"{one.target.id} += 1")], []),
                ]  # fmt: skip
                continue
        if isinstance(one, ast.For) and not one.orelse:
            name = f"items_{rng.randrange(10_000)}"
            step = ast.Assign([one.target], ast.Call(load("next"), [load(name)], []))
            stop = ast.ExceptHandler(load("StopIteration"), None, [ast.Break()])
            found += [
                assign(name, ast.Call(load("iter"), [one.iter], [])),
                ast.While(ast.Constant(True), [ast.Try([step], [stop], [], []), *one.body], []),
            ]
            continue
        found.append(one)
    return found


@bodies
def loops(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """Comprehensions that are assigned or returned become loops."""
    found: list[ast.stmt] = []
    for one in body:
        value = getattr(one, "value", None)
        summed = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and \
            value.func.id == "sum" and len(value.args) == 1  # fmt: skip
        made = value.args[0] if summed else value
        if not isinstance(one, ast.Assign | ast.Return) or not isinstance(
            made, ast.ListComp | (ast.GeneratorExp if summed else ast.ListComp)
        ):
            found.append(one)
            continue
        name = f"made_{rng.randrange(10_000)}"
        add = f"{name} += 0" if summed else f"{name}.append(0)"
        (step,) = parsed(add)
        if isinstance(step, ast.AugAssign):
            step.value = made.elt
        else:
            step.value.args = [made.elt]
        inner: ast.stmt = step
        for part in reversed(made.generators):
            for test in reversed(part.ifs):
                inner = ast.If(test, [inner], [])
            inner = ast.For(part.target, part.iter, [inner], [])
        start = ast.Constant(0) if summed else ast.List([], ast.Load())
        one.value = load(name)
        found += [assign(name, start), inner, one]
    return found


@bodies
def ternaries(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`x = a if c else b` and `return a if c else b` become `if`."""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.Assign | ast.Return) and isinstance(one.value, ast.IfExp):
            value, other = one.value, copy.deepcopy(one)
            one.value, other.value = value.body, value.orelse
            one = ast.If(value.test, [one], [other])
        found.append(one)
    return found


def operators_as_functions(tree: ast.Module, rng: random.Random) -> ast.Module:
    """torch.matmul(a, b), operator.add(a, b)"""
    at = next(i for i, n in enumerate(tree.body) if isinstance(n, ast.Import | ast.ImportFrom))
    at += isinstance(tree.body[at], ast.ImportFrom) and tree.body[at].module == "__future__"
    tree.body[at:at] = parsed("import operator")
    return _operators(tree, rng)


@nodes(ast.BinOp)
def _operators(node: ast.BinOp) -> ast.AST:
    if type(node.op) not in METHODS:
        return node
    func = ast.parse(METHODS[type(node.op)], mode="eval").body
    return ast.Call(func, [node.left, node.right], [])


@nodes(ast.Constant)
def literals(node: ast.Constant) -> ast.AST:
    """4 is 2 + 2, 0.5 is 1 / 2, 1e-8 is 10 ** -8"""
    value = node.value
    if type(value) is int and 1 < value < 1e6:
        return ast.BinOp(ast.Constant(value - 1), ast.Add(), ast.Constant(1))
    if type(value) is float and value:
        return ast.BinOp(ast.Constant(2 * value), ast.Div(), ast.Constant(2))
    return node


@bodies
def named_steps(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """Every call inside a statement gets a name first: chained calls become steps."""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.Assign | ast.Return | ast.AugAssign) and one.value is not None:
            found += _steps(one, rng)
        found.append(one)
    return found


def _steps(statement: ast.stmt, rng: random.Random) -> list[ast.stmt]:
    found: list[ast.stmt] = []

    def named(tree: ast.expr, top: bool = False) -> ast.expr:
        if isinstance(tree, ast.Call):
            tree.args = [named(a) if not isinstance(a, ast.Starred) else a for a in tree.args]
            for keyword in tree.keywords:
                keyword.value = named(keyword.value)
            if isinstance(tree.func, ast.Attribute):
                tree.func.value = named(tree.func.value)
        elif isinstance(tree, ast.BinOp):
            tree.left, tree.right = named(tree.left), named(tree.right)
        if top or not isinstance(tree, ast.Call | ast.BinOp):
            return tree
        if "super" in ast.unparse(tree) or "next(" in ast.unparse(tree):
            return tree
        name = f"step_{rng.randrange(1_000_000)}"
        found.append(assign(name, tree))
        return load(name)

    statement.value = named(statement.value, top=True)
    return found


def together(*several: Callable) -> Callable:
    def change(tree: ast.Module, rng: random.Random) -> ast.Module:
        for one in several:
            tree = ast.parse(ast.unparse(ast.fix_missing_locations(one(tree, rng))))
        return tree

    return change


DISGUISES: dict[str, Callable[[ast.Module, random.Random], ast.AST]] = {
    "reprinted by a formatter, comments removed": lambda tree, rng: tree,
    "variables and helpers renamed": renamed,
    "docstrings, prints and type hints added": annotated,
    "other messages in errors": messages,
    "functions and methods reordered": reordered,
    "operands swapped": operands,
    "statements swapped": statements,
    "conditions negated, branches swapped": negated,
    "_ = 0 after each statement": no_ops,
    "dead code": dead_code,
    "while for for": while_for,
    "loops for comprehensions": loops,
    "if for ternaries": ternaries,
    "functions for operators": operators_as_functions,
    "other forms of numbers": literals,
    "chained calls as named steps": named_steps,
}
DISGUISES["fifteen of these together"] = together(
    renamed, annotated, messages, reordered, operands, statements, negated, no_ops, while_for,
    loops, ternaries, operators_as_functions, literals, named_steps, dead_code,
)  # fmt: skip


def disguised(sources: Sources, name: str, seed: int = 0) -> Sources:
    """The sources with one of DISGUISES."""
    found = {}
    for path, text in sources.items():
        tree = DISGUISES[name](ast.parse(text), random.Random(seed))
        found[path] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return found


# --- programs made at random, with every kind of statement that a copier disguises ----------------


CALLS = ["exp", "log", "relu", "tanh", "abs", "sigmoid", "sin", "cos"]


def _expression(rng, names):
    one, other, third = (rng.choice(names) for _ in range(3))
    number = rng.choice([2, 3, 7, 11, 0.25, 0.75, 1e-3, 5.5])
    return rng.choice([
        f"torch.{rng.choice(CALLS)}({one} * {number} + {other}) @ {third}",
        f"({one} @ {other}.T).{rng.choice(CALLS)}() - {number}",
        f"torch.{rng.choice(CALLS)}({one}) / ({other} + {number})",
        f"{one}.sum({rng.randrange(3)}) * {other}.grad + {number} * {third}",
    ])  # fmt: skip


def _function(rng, name):
    """One function with a ternary, loops, a comprehension, a test, an inner function and steps."""
    names = ["x", "w", "b"]
    make = lambda: _expression(rng, names)  # noqa: E731
    return f"""
def {name}(x, w, b):
    def inner(v):
        return {_expression(rng, ["v", "x"])}
    first = {make()}
    second = {make()}
    scale = {make()} if x.sum() < {rng.randrange(9)} else {make()}
    rows = [{_expression(rng, ["row", "w"])} for row in x if row.grad is not None]
    kept = []
    for step in range(len(w)):
        kept.append({_expression(rng, ["w[step]", "b"])})
    total = {rng.randrange(2, 9)}
    for row in b:
        part = {_expression(rng, ["row", "first"])}
        whole = {_expression(rng, ["row", "part"])}
        total += torch.{rng.choice(CALLS)}(whole * part + {rng.randrange(2, 99)})
    if scale.numel() > {rng.randrange(99)}:
        raise ValueError(f"scale is {{scale}}")
    if x.dim() == {rng.randrange(9)}:
        second = {make()}
    else:
        second = {_expression(rng, ["second", "x"])}
    first.mul_({rng.randrange(2, 9)}).add_(second, alpha={rng.randrange(2, 9)})
    if total.sum() > {rng.randrange(99)}:
        return inner(first @ second) + torch.relu(w)
    return torch.stack(rows + kept) * total + _helper_{name}(scale) - _short_{name}(w)


def _helper_{name}(a):
    kept = {_expression(rng, ["a"])}
    return torch.{rng.choice(CALLS)}(kept * {rng.randrange(2, 99)})


def _short_{name}(a):
    return {_expression(rng, ["a"])}
"""


def program(seed, functions=4):
    """The source of a module."""
    rng = random.Random(seed)
    held = f"""
class Held:
    def __init__(self, size):
        self.size = size
        self.rows = torch.zeros(size, {rng.randrange(99)})

    def forward(self, x):
        return {_expression(rng, ["x", "self.rows"])} * self.size
"""
    parts = [_function(rng, f"f{n}") for n in range(functions)]
    return '"""A module."""\n\nimport math\nimport torch\n' + held + "".join(parts)
