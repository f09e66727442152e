"""Programs that disguise copied code, as a copier would by hand; what the code computes stays.

Each disguise takes the syntax tree of a module and changes it everywhere it can. `DISGUISES` lists
them by name; the benchmark and the tests apply them to right solutions.
"""

import ast
import builtins
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
BUILTINS = set(dir(builtins))
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


def private_attributes(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Attributes of `self` that the class sets, except those that its stub declares."""
    declared = {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AnnAssign)
                and isinstance(n.target, ast.Name)}  # fmt: skip
    own = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)
           and isinstance(n.value, ast.Name) and n.value.id == "self"]  # fmt: skip
    stored = {n.attr for n in own if isinstance(n.ctx, ast.Store)} - declared
    for n in own:
        n.attr = f"held_{n.attr}" if n.attr in stored else n.attr
    return tree


def aliased(tree: ast.Module, rng: random.Random) -> ast.Module:
    """`import torch as tt`"""
    names = {a.name: f"{a.name}_lib" for n in tree.body if isinstance(n, ast.Import)
             for a in n.names if a.asname is None and "." not in a.name}  # fmt: skip
    for n in ast.walk(tree):
        if isinstance(n, ast.Import):
            for a in n.names:
                a.asname = names.get(a.name, a.asname)
        elif isinstance(n, ast.Name):
            n.id = names.get(n.id, n.id)
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
def self_assignments(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`x = x` after each assignment."""
    found: list[ast.stmt] = []
    for one in body:
        found.append(one)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            found.append(assign(one.targets[0].id, load(one.targets[0].id)))
    return found


@bodies
def if_true(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`if True:` around each simple statement, and `for _ in range(1):` around some."""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, SIMPLE):
            once = ast.Call(load("range"), [ast.Constant(1)], [])
            one = (ast.If(ast.Constant(True), [one], []) if rng.random() < 0.6 else
                   ast.For(ast.Name("_", ast.Store()), once, [one], []))  # fmt: skip
        found.append(one)
    return found


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


def dead_functions(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Functions that nothing calls."""
    for n in range(6):
        tree.body += parsed(
            f"def _spare_{n}(a, b):\n    total = {rng.randrange(99)}\n    for k in range(a):\n"
            f"        total = total * {rng.randrange(9)} + b ** k % {rng.randrange(1, 9)}\n"
            f"        if total > {rng.randrange(99)}:\n            b -= total\n    return total, b"
        )
    return tree


@bodies
def wrapped(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`try: … finally: pass` around simple statements."""
    return [
        ast.Try([one], [], [], [ast.Pass()]) if isinstance(one, SIMPLE) else one for one in body
    ]


@nodes(ast.Return)
def casts(node: ast.Return) -> ast.AST:
    """(lambda it: it)(value)"""
    if node.value is None:
        return node
    arguments = ast.arguments([], [ast.arg("it")], None, [], [], None, [])
    return ast.Return(ast.Call(ast.Lambda(arguments, load("it")), [node.value], []))


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
def comprehensions(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`xs = []`, a loop that only appends: a comprehension."""
    body = list(body)
    for at in range(len(body) - 1, 0, -1):
        first, loop = body[at - 1], body[at]
        if not (isinstance(first, ast.Assign) and isinstance(first.value, ast.List)
                and isinstance(loop, ast.For) and len(loop.body) == 1):  # fmt: skip
            continue
        step = loop.body[0]
        if isinstance(step, ast.Expr) and ast.unparse(step).startswith(
            f"{ast.unparse(first.targets[0])}.append("
        ):
            part = ast.comprehension(loop.target, loop.iter, [], 0)
            first.value = ast.ListComp(step.value.args[0], [part])
            del body[at]
    return body


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


@bodies
def to_ternaries(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`if c: return a` before `return b` becomes one `return`."""
    body = list(body)
    if len(body) > 1 and isinstance(body[-1], ast.Return) and isinstance(one := body[-2], ast.If):
        inside = one.body[0]
        is_plain = len(one.body) == 1 and not one.orelse and isinstance(inside, ast.Return)
        if is_plain and inside.value and body[-1].value:
            body[-2:] = [ast.Return(ast.IfExp(one.test, inside.value, body[-1].value))]
    return body


@bodies
def lambdas(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """An inner function of one `return` becomes a lambda."""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.FunctionDef) and not one.decorator_list:
            inside = one.body[len(_docstring(one.body)) :]
            if len(inside) == 1 and isinstance(inside[0], ast.Return) and inside[0].value:
                for argument in ast.walk(one.args):
                    if isinstance(argument, ast.arg):
                        argument.annotation = None
                one = assign(one.name, ast.Lambda(one.args, inside[0].value))
        found.append(one)
    return found


def module_lambdas(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Helpers of one `return` become lambdas, at the top of the module too."""
    helpers = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("_")]
    wrapper = ast.FunctionDef("f", ast.arguments([], [], None, [], [], None, []), helpers, [])
    if helpers:
        made = lambdas(ast.Module([wrapper], []), rng).body[0].body
        for old, new in zip(helpers, made, strict=True):
            tree.body[tree.body.index(old)] = new
    return lambdas(tree, rng)


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


@nodes(ast.Call)
def functions_as_methods(node: ast.Call) -> ast.AST:
    """x.exp() for torch.exp(x)"""
    func = node.func
    if (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and node.args
            and func.value.id == "torch" and isinstance(node.args[0], ast.Name)
            and func.attr in ("relu", "exp", "matmul", "sqrt", "sum", "mean")):  # fmt: skip
        return ast.Call(
            ast.Attribute(node.args[0], func.attr, ast.Load()), node.args[1:], node.keywords
        )
    return node


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
def augmented(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """x = x + 1 for x += 1"""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            one = assign(one.target.id, ast.BinOp(load(one.target.id), one.op, one.value))
        found.append(one)
    return found


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


@bodies
def inlined(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """A variable that only the next statement uses, once, is replaced by its value."""
    body, at = list(body), 0
    while at + 1 < len(body):
        one, after = body[at], body[at + 1]
        if (
            isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and isinstance(after, ast.Assign | ast.Return | ast.Expr)
        ):
            name = one.targets[0].id
            uses = [
                n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name
            ]
            nested = any(isinstance(n, ast.Lambda | ast.GeneratorExp | ast.ListComp)
                         for n in ast.walk(after))  # fmt: skip
            inside = [n for n in ast.walk(after) if n in uses and isinstance(n.ctx, ast.Load)]
            if len(uses) == 2 and len(inside) == 1 and not nested:
                body[at + 1] = _Replaced(inside[0], one.value).visit(after)
                del body[at]
                continue
        at += 1
    return body


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def extracted(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Expressions of some size become helpers: `_part_1(a, b)`."""
    helpers: list[ast.stmt] = []
    known = _of_module(tree)

    def change(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
        for one in body:
            value = getattr(one, "value", None)
            if not isinstance(one, ast.Assign | ast.Return | ast.AugAssign) or value is None:
                continue
            banned = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)
            parts = list(ast.walk(value))
            if len(parts) < 8 or any(isinstance(n, banned) for n in parts):
                continue
            if "super" in ast.unparse(value):
                continue
            used = sorted(_names(value, ast.Load) - _names(value, ast.Store) - known - BUILTINS)
            name = f"_part_{len(helpers)}"
            helper = parsed(f"def {name}({', '.join(used)}):\n    return 0")[0]
            helper.body[0].value = value
            helpers.append(helper)
            one.value = ast.Call(load(name), [load(n) for n in used], [])
        return body

    return _with_helpers(Bodies(rng, change).visit(tree), helpers)


def _of_module(tree: ast.Module) -> set[str]:
    """The names of the module that no function binds for itself."""
    inner = {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
    inner |= {
        x for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for x in _names(f, ast.Store)
    }
    return {n for one in tree.body for n in _bound(one)} - inner


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name).split(".")[0] for a in node.names}
    return _names(node, ast.Store)


@bodies
def _opaque(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, SIMPLE):
            n = rng.randrange(9)
            other = parsed(f"unused_{n} = str({n}).join(['{n}', '{n + 1}'])")
            one = ast.If(ast.parse(f"len(str({n})) > 0", mode="eval").body, [one], other)
        found.append(one)
    return found


def opaque(tree: ast.Module, rng: random.Random) -> ast.Module:
    """Conditions that always hold, and another branch with other code."""
    return _opaque(tree, rng)


def blocks(tree: ast.Module, rng: random.Random) -> ast.Module:
    """The body of each loop becomes a helper that returns what it assigned."""
    arguments = {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
    helpers: list[ast.stmt] = []
    known = _of_module(tree)

    def change(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
        for one in body:
            if not isinstance(one, ast.For) or one.orelse:
                continue
            inside = ast.Module(one.body, [])
            jumps = (
                ast.Break | ast.Continue | ast.Return | ast.Yield | ast.Nonlocal | ast.FunctionDef
            )
            if any(isinstance(n, jumps) for n in ast.walk(inside)) or len(one.body) < 2:
                continue
            stored = sorted(_names(inside, ast.Store))
            comprehended = {x for n in ast.walk(inside) if isinstance(n, ast.comprehension)
                            for x in _names(n.target, ast.Store)}  # fmt: skip
            kept = [x for x in stored if x not in comprehended]
            before = _names(ast.Module(body[: body.index(one)], []), ast.Store)
            if (set(kept) - before) & arguments & _names(inside, ast.Load):
                continue  # perhaps the function's own argument
            own = set(kept) - before - _names(one.target, ast.Store)
            loaded = _names(inside, ast.Load) | (set(kept) & before)
            used = sorted(loaded - known - BUILTINS - comprehended - own)
            helper = parsed(f"def _block_{len(helpers)}({', '.join(used)}):\n    return 0")[0]
            call = ast.Call(load(helper.name), [load(x) for x in used], [])
            result = ast.Tuple([load(x) for x in kept], ast.Load())
            helper.body = [*one.body, *([ast.Return(result)] if kept else [])]
            target = ast.Tuple([ast.Name(x, ast.Store()) for x in kept], ast.Store())
            one.body = [ast.Assign([target], call) if kept else ast.Expr(call)]
            helpers.append(helper)
        return body

    return _with_helpers(Bodies(rng, change).visit(tree), helpers)


def _with_helpers(tree: ast.Module, helpers: list[ast.stmt]) -> ast.Module:
    kinds = ast.FunctionDef | ast.ClassDef
    at = next((i for i, n in enumerate(tree.body) if isinstance(n, kinds)), len(tree.body))
    tree.body[at:at] = helpers
    return tree


@nodes(ast.BinOp)
def einsum(node: ast.BinOp) -> ast.AST:
    """torch.einsum for a @ b, where both are matrices."""
    if not isinstance(node.op, ast.MatMult):
        return node
    func = ast.parse("torch.einsum", mode="eval").body
    return ast.Call(func, [ast.Constant("...ij,...jk->...ik"), node.left, node.right], [])


@bodies
def in_place(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """p.sub_(…) is p -= …, p.mul_(a).add_(b) is two steps."""
    found: list[ast.stmt] = []
    symbols = {"add_": ast.Add, "sub_": ast.Sub, "mul_": ast.Mult, "div_": ast.Div}
    for one in body:
        call = one.value if isinstance(one, ast.Expr) else None
        steps: list[ast.stmt] = []
        while (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and len(call.args) == 1
        ):
            if call.func.attr not in symbols or {k.arg for k in call.keywords} - {"alpha"}:
                break
            value = call.args[0]
            for keyword in call.keywords:
                value = ast.BinOp(keyword.value, ast.Mult(), value)
            steps.insert(
                0, ast.AugAssign(ast.Name("", ast.Store()), symbols[call.func.attr](), value)
            )
            call = call.func.value
        if steps and isinstance(call, ast.Name):
            for step in steps:
                step.target.id = call.id
            found += steps
        else:
            found.append(one)
    return found


@bodies
def indexed(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """`for i, x in enumerate(xs)` for `for x in xs`"""
    for one in body:
        if isinstance(one, ast.For) and isinstance(one.target, ast.Name):
            one.target = ast.Tuple([ast.Name("_place", ast.Store()), one.target], ast.Store())
            one.iter = ast.Call(load("enumerate"), [one.iter], [])
    return body


@nodes(ast.Attribute)
def looked_up(node: ast.Attribute) -> ast.AST:
    """getattr(x, "grad") for x.grad"""
    if not isinstance(node.ctx, ast.Load) or node.attr.startswith("__"):
        return node
    return ast.Call(load("getattr"), [node.value, ast.Constant(node.attr)], [])


def together(*several: Callable) -> Callable:
    def change(tree: ast.Module, rng: random.Random) -> ast.Module:
        for one in several:
            tree = ast.parse(ast.unparse(ast.fix_missing_locations(one(tree, rng))))
        return tree

    return change


DISGUISES: dict[str, Callable[[ast.Module, random.Random], ast.AST]] = {
    "reprinted by a formatter, comments removed": lambda tree, rng: tree,
    "variables and helpers renamed": renamed,
    "attributes of self renamed": private_attributes,
    "modules imported by other names": aliased,
    "docstrings, prints and type hints added": annotated,
    "other messages in errors": messages,
    "functions and methods reordered": reordered,
    "operands swapped": operands,
    "statements swapped": statements,
    "conditions negated, branches swapped": negated,
    "_ = 0 after each statement": no_ops,
    "x = x after each assignment": self_assignments,
    "if True: and for _ in range(1): around statements": if_true,
    "dead code": dead_code,
    "functions that nothing calls": dead_functions,
    "try … finally: pass around statements": wrapped,
    "an identity around each result": casts,
    "while for for": while_for,
    "loops for comprehensions": loops,
    "comprehensions for loops": comprehensions,
    "if for ternaries": ternaries,
    "ternaries for if": to_ternaries,
    "lambda for def": module_lambdas,
    "functions for operators": operators_as_functions,
    "methods for functions": functions_as_methods,
    "other forms of numbers": literals,
    "x = x + 1 for x += 1": augmented,
    "chained calls as named steps": named_steps,
    "variables inlined": inlined,
    "expressions as helpers": extracted,
    "bodies of loops as helpers": blocks,
    "operators in place for methods": in_place,
    "conditions that always hold, with other branches": opaque,
    "einsum for @": einsum,
    "enumerate for a plain loop": indexed,
    "getattr for attributes": looked_up,
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
