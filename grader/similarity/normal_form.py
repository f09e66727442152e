"""The normal form of Python code: what it computes, without how it is written.

Each expression becomes a graph. A variable stands for its value, a loop's variable for an item of
what the loop runs over, and a call of a function of the same file for what that function returns.
So the names of variables, the order of statements, steps with a name or without one, helpers, dead
code, and loops or comprehensions make no difference. Operators have one form each: `a @ b`,
`a.matmul(b)` and `torch.matmul(a, b)` are alike, a - b is a + -1·b, and sums and products are
sorted.

The features of a file are the hashes of all parts of its graphs up to a few levels deep. Two files
share a feature if both compute something alike (Shervashidze et al., "Weisfeiler-Lehman graph
kernels", JMLR 2011, count such parts to compare graphs). The graph is made for comparing code only:
it drops what copiers change, so programs with the same graph need not behave alike.
"""

import ast
import hashlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

MAX_SOURCE = 400_000  # characters of a source that is read
# A step is an expression, a statement, a node or one of its operands, or some names in a copy. So a
# number of steps limits the time, on every machine alike.
MAX_STEPS = 400_000  # of one statement at the top of a file, such as a definition
FILE_STEPS = 200_000  # of a file, and these for each of its characters
STEPS_PER_CHARACTER = 5
MAX_CALLS = 400  # calls of a file's own functions that are followed, for each definition
DEEPEST_CALL = 5  # calls inside calls that are followed
MAX_TERMS = 64  # of one sum or product
MAX_NAME = 100  # characters of a name that count
MAX_PATH = 32  # names in a row, as in a.b.c
NAMES_PER_STEP = 32  # of a copy; each costs much less than an expression
DEPTHS = (2, 3)  # levels below a node that its features include
FEWEST_LABELS = 5  # a part with fewer nodes is in every program

# What an operation is called here, by its names in Python, torch and NumPy.
NAMES = {
    "+": "add iadd", "*": "mul imul multiply", "-": "sub isub subtract",
    "/": "div idiv truediv true_divide divide itruediv", "**": "pow ipow power float_power",
    "//": "floordiv floor_divide", "%": "mod remainder fmod", "@": "matmul mm bmm imatmul dot mv",
    "neg": "negative", "numel": "nelement", "shape": "size", "abs": "absolute", "dim": "ndim",
    "T": "t mT transpose swapaxes swapdims permute adjoint", "cat": "concat concatenate",
    "max": "maximum amax clamp_min", "min": "minimum amin clamp_max", "lt": "less",
    "[]": "getitem __getitem__",
}  # fmt: skip
CALLED = {name: label for label, names in NAMES.items() for name in names.split()}
# Calls and attributes that stand for their first argument.
TRANSPARENT = {
    "iter", "list", "tuple", "float", "int", "bool", "clone", "contiguous", "data", "keys",
    "deepcopy", "copy", "cast",
}  # fmt: skip
SILENT = {"print", "pprint", "breakpoint"}  # calls that show something
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@",
    ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
# Operations whose operands have an order; those of all others are sorted.
ORDERED = {"**", "@", "//", "%", "<<", ">>", "lt", "[]", "slice", "set", "tuple"}
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)  # nothing after them runs
MASK = (1 << 64) - 1
FIELD = "."  # prefix of an attribute's label


@dataclass(eq=False, slots=True)
class GraphNode:
    """One value: its operation, what that is applied to, and the lines where it is written."""

    label: str
    kids: tuple["GraphNode", ...]
    first: int
    last: int
    key: int = 0
    parts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = [kid.key for kid in self.kids]
        self.key = _mixed(self.label, keys if self.label in ORDERED else sorted(keys))

    def part(self, depth: int) -> tuple[int, int]:
        """The hash of this node and the levels below it, and the number of their nodes."""
        if depth == 0 or not self.kids:
            return _hashed(self.label), 1
        if depth not in self.parts:
            found = [kid.part(depth - 1) for kid in self.kids]
            hashes = [one for one, _ in found]
            key = _mixed(self.label, hashes if self.label in ORDERED else sorted(hashes))
            self.parts[depth] = key, 1 + sum(size for _, size in found)
        return self.parts[depth]

    @property
    def number(self) -> float | None:
        """The value of a constant number."""
        return float(self.label[1:]) if self.label.startswith("#") else None


@lru_cache(100_000)
def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mixed(label: str, keys: Iterable[int]) -> int:
    total = _hashed(label)
    for key in keys:
        total = ((total ^ key) * 0x9E3779B97F4A7C15 + (total >> 29)) & MASK
    return total ^ total >> 32


@dataclass(eq=False)
class Function:
    """A function of the file, with the variables that it sees."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    seen: "Names"
    bound: GraphNode | None = None  # the object that a method belongs to


Value = GraphNode | Function
Names = dict[str, Value]


class Feature(NamedTuple):
    """One part of a graph: its hash, and the lines where its top is written."""

    hash: int
    first: int
    last: int


class Definition(NamedTuple):
    """A function or class at the top of a file, and its lines."""

    name: str
    first: int
    last: int


def read(source: str) -> tuple[list[Feature], list[Definition]]:
    """The features of a source, each once, and its definitions; both in the order of their lines.

    Raises:
        SyntaxError: The source is not Python, or too long, nested too deeply, or takes too many
            steps; the message continues a sentence that begins with its name.
    """
    if len(source) > MAX_SOURCE:
        raise SyntaxError(f"has more than {MAX_SOURCE:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those for "\\d" in a student's text
            tree = ast.parse(source)
        reader = _Reader(FILE_STEPS + STEPS_PER_CHARACTER * len(source))
        reader.module(tree)
        found = sorted(_features(reader.roots), key=lambda one: (one.first, one.last, one.hash))
    except (RecursionError, MemoryError):
        raise SyntaxError("is nested too deeply, or too large") from None
    except (SyntaxError, ValueError) as e:
        raise SyntaxError(f"is not Python: {e.msg if isinstance(e, SyntaxError) else e}") from None
    except _TooMuch:
        raise SyntaxError("takes too many steps for its length") from None
    return found, [
        Definition(one.name, min([one.lineno, *(d.lineno for d in one.decorator_list)]),
                   one.end_lineno or one.lineno)
        for one in tree.body
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]  # fmt: skip


def _features(roots: Iterable[GraphNode]) -> Iterator[Feature]:
    seen: set[int] = set()
    waiting, known = list(roots), set()
    while waiting:
        node = waiting.pop()
        if node.key in known:
            continue
        known.add(node.key)
        waiting += node.kids
        for depth in DEPTHS:
            key, size = node.part(depth)
            if size >= FEWEST_LABELS and key not in seen:
                seen.add(key)
                yield Feature(key, node.first, node.last)


class _TooMuch(Exception):
    """A definition or a file takes more steps than it may."""


class _Reader:
    """Reads one file. `roots` are the values that it returns, stores, tests or acts with.

    Args:
        most: The most steps that the file may take.
    """

    def __init__(self, most: int) -> None:
        self.roots: list[GraphNode] = []
        self.at = (1, 1)
        self.steps = 0
        self.most = self.until = most
        self.calls = 0
        self.following: list[ast.AST] = []
        self.returned: list[GraphNode] = []
        self.modules: set[str] = set()
        self.methods: Names = {}

    # --- steps ------------------------------------------------------------------------------------

    def spend(self, steps: int) -> None:
        """Count steps, so that the time for a file is limited by a number and not by a clock."""
        self.steps += steps
        if self.steps > self.until:
            raise _TooMuch

    def copied(self, names: Names) -> Names:
        self.spend(len(names) // NAMES_PER_STEP)
        return dict(names)

    # --- nodes ------------------------------------------------------------------------------------

    def node(self, label: str, *kids: GraphNode) -> GraphNode:
        self.spend(1 + len(kids))
        return GraphNode(label[:MAX_NAME], kids, *self.at)

    def constant(self, value: object) -> GraphNode:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return self.node(f"#{float(value)!r}")
            except OverflowError:
                return self.node("#inf")
        text = isinstance(value, (str, bytes))
        return self.node("text" if text else f"is {value!r}"[:40])

    def apply(self, label: str, kids: Sequence[GraphNode]) -> GraphNode:
        """The value of an operation in its one form."""
        rule = RULES.get(label)
        if rule and kids and (found := rule(self, *kids)) is not None:
            return found
        if label in ("+", "*"):
            return self.many(label, kids)
        if label == "-" and len(kids) > 1:
            return self.many("+", [kids[0], self.times(-1, kids[1])])
        if label == "/" and len(kids) > 1:
            return self.many("*", [kids[0], self.power(kids[1], self.constant(-1))])
        return self.node(label, *kids)

    def many(self, label: str, kids: Iterable[GraphNode]) -> GraphNode:
        """A sum or product: flat, sorted, with its constants in one."""
        flat = [x for kid in kids for x in (kid.kids if kid.label == label else (kid,))][:MAX_TERMS]
        numbers = [kid.number for kid in flat if kid.number is not None]
        rest = sorted((kid for kid in flat if kid.number is None), key=lambda kid: kid.key)
        total = sum(numbers) if label == "+" else math.prod(numbers)
        if not rest:
            return self.constant(total)
        if label == "*" and total == -1 and len(rest) == 1 and rest[0].label == "+":
            return self.many("+", [self.times(-1, kid) for kid in rest[0].kids])
        if total != (0 if label == "+" else 1):
            rest.append(self.constant(total))
        return rest[0] if len(rest) == 1 else self.node(label, *rest)

    def times(self, factor: float, value: GraphNode) -> GraphNode:
        return self.many("*", [self.constant(factor), value])

    def power(self, value: GraphNode, exponent: GraphNode) -> GraphNode:
        inner = value.kids[1].number if value.label == "**" and len(value.kids) > 1 else None
        if inner is not None and exponent.number is not None:
            value, exponent = value.kids[0], self.constant(inner * exponent.number)
        base, to = value.number, exponent.number
        if to == 1:
            return value
        if base and to is not None and abs(to) <= 64 and abs(base) < 1e4:
            with suppress(OverflowError):
                result = base**to
                if isinstance(result, float):
                    return self.constant(result)
        return self.node("**", value, exponent)

    def phi(self, values: Iterable[GraphNode]) -> GraphNode:
        """One of several values, by a condition that is left out."""
        each: dict[int, GraphNode] = {}
        for value in values:
            found = value.kids if value.label == "phi" else (value,)
            self.spend(len(found))
            each |= {one.key: one for one in found}
        kids = list(each.values())
        return kids[0] if len(kids) == 1 else self.node("phi", *kids)

    def item(self, value: GraphNode) -> GraphNode:
        """An item of what a loop runs over."""
        if not value.kids:  # a name, which may be that of an operation
            return self.node("item", value)
        if value.label == "collect":
            return value.kids[0]
        if value.label == "tuple":
            return self.phi(value.kids)
        if value.label == "zip":
            return self.node("tuple", *(self.item(kid) for kid in value.kids))
        if value.label == "enumerate":
            inside = value.kids[0]
            index = self.item(self.node("range", self.node("len", inside)))
            return self.node("tuple", index, self.item(inside))
        if value.label in ("items", "values") and len(value.kids) == 1:
            inside = value.kids[0]
            key = self.item(inside)
            found = self.node("[]", inside, key)
            return self.node("tuple", key, found) if value.label == "items" else found
        return self.node("item", value)

    def element(self, value: GraphNode, index: GraphNode) -> GraphNode:
        """value[index]"""
        at = index.number
        if value.label == "tuple" and at is not None and -len(value.kids) <= at < len(value.kids):
            return value.kids[int(at)]
        if index.label == "item" and index.kids and index.kids[0].label == "range":
            over = index.kids[0].kids[-1:]
            is_size = over and over[0].kids and over[0].label in ("len", "shape")
            if is_size and over[0].kids[0].key == value.key:
                return self.item(value)
        return self.node("[]", value, index)

    def root(self, value: GraphNode) -> None:
        self.spend(1 + len(value.kids))
        if value.label == "phi":
            self.roots += value.kids
        else:
            self.roots.append(value)

    def test(self, value: GraphNode) -> None:
        """A condition: `not` makes no difference, and each part of `and` and `or` is one."""
        if value.label == "either":
            for kid in value.kids:
                self.test(kid)
        else:
            self.root(value)

    # --- expressions ------------------------------------------------------------------------------

    def value(self, tree: ast.AST | None, names: Names) -> GraphNode:
        """The value of an expression."""
        self.spend(1)
        if tree is None:
            return self.node("is None")
        before, self.at = self.at, (getattr(tree, "lineno", self.at[0]), self.at[1])
        self.at = self.at[0], getattr(tree, "end_lineno", None) or self.at[0]
        try:
            read = EXPRESSIONS.get(type(tree))
            if read is not None:
                return read(self, tree, names)
            kids = [self.value(kid, names) for kid in ast.iter_child_nodes(tree)
                    if isinstance(kid, ast.expr)]  # fmt: skip
            return self.node(type(tree).__name__, *kids)
        finally:
            self.at = before

    def _constant(self, tree: ast.Constant, names: Names) -> GraphNode:
        return self.constant(tree.value)

    def _text(self, tree: ast.AST, names: Names) -> GraphNode:
        return self.constant("")

    def _name(self, tree: ast.Name, names: Names) -> GraphNode:
        found = names.get(tree.id)
        if isinstance(found, Function):
            return self.as_value(found)
        if found is not None:
            return found
        return self.node(CALLED.get(tree.id, tree.id))

    def as_value(self, function: Function) -> GraphNode:
        """A function that is not called here, such as a key to sort by."""
        return self.node("function", self.called(function, [], {}))

    def _attribute(self, tree: ast.Attribute, names: Names) -> GraphNode:
        tree.value = _plain(tree.value)
        path = _path(tree)
        if path and path[0] in self.modules:
            return self.node(CALLED.get(path[-1], path[-1]))
        if path and len(path) == 2 and (found := names.get(".".join(path))):
            return self.as_value(found) if isinstance(found, Function) else found
        base = self.value(tree.value, names)
        if tree.attr in TRANSPARENT:
            return base
        label = CALLED.get(tree.attr, tree.attr[:MAX_NAME])
        if base.label == "self":
            return self.node(FIELD, base)
        return self.apply(label, [base]) if label in RULES else self.node(FIELD + label, base)

    def _binary(self, tree: ast.BinOp, names: Names) -> GraphNode:
        kids = [self.value(kid, names) for kid in (tree.left, tree.right)]
        return self.apply(OPERATORS[type(tree.op)], kids)

    def _unary(self, tree: ast.UnaryOp, names: Names) -> GraphNode:
        inside = self.value(tree.operand, names)
        if isinstance(tree.op, ast.Not):
            return self.node("is False") if inside.label == "is True" else inside
        if isinstance(tree.op, ast.USub):
            return self.times(-1, inside)
        return inside if isinstance(tree.op, ast.UAdd) else self.node("~", inside)

    def _compare(self, tree: ast.Compare, names: Names) -> GraphNode:
        sides = [self.value(side, names) for side in (tree.left, *tree.comparators)]
        found = []
        for op, (a, b) in zip(tree.ops, itertools.pairwise(sides), strict=True):
            if isinstance(op, (ast.Gt, ast.LtE)):
                a, b = b, a
            label = COMPARED.get(type(op), "lt")
            found.append(self.node(label, a, b))
        return found[0] if len(found) == 1 else self.node("either", *found)

    def _bool(self, tree: ast.BoolOp, names: Names) -> GraphNode:
        kids = [self.value(kid, names) for kid in tree.values]
        flat = [one for kid in kids for one in (kid.kids if kid.label == "either" else (kid,))]
        return self.node("either", *flat)

    def _if_else(self, tree: ast.IfExp, names: Names) -> GraphNode:
        test = self.value(tree.test, names)
        if (known := _known(test)) is not None:
            return self.value(tree.body if known else tree.orelse, names)
        self.test(test)
        return self.phi([self.value(tree.body, names), self.value(tree.orelse, names)])

    def _comprehension(
        self, tree: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, names: Names
    ) -> GraphNode:
        inner = self.copied(names)
        for part in tree.generators:
            self.bind(part.target, self.item(self.value(part.iter, inner)), inner)
            for test in part.ifs:
                self.test(self.value(test, inner))
        if isinstance(tree, ast.DictComp):
            pair = self.value(tree.key, inner), self.value(tree.value, inner)
            return self.node("dict", *pair)
        return self.node("collect", self.value(tree.elt, inner))

    def _subscript(self, tree: ast.Subscript, names: Names) -> GraphNode:
        return self.element(self.value(tree.value, names), self.value(tree.slice, names))

    def _slice(self, tree: ast.Slice, names: Names) -> GraphNode:
        return self.node(
            "slice", *(self.value(end, names) for end in (tree.lower, tree.upper, tree.step))
        )

    def _sequence(self, tree: ast.Tuple | ast.List | ast.Set, names: Names) -> GraphNode:
        return self.node("tuple", *(self.value(kid, names) for kid in tree.elts))

    def _dict(self, tree: ast.Dict, names: Names) -> GraphNode:
        both = [*(key for key in tree.keys if key), *tree.values]
        kids = [self.value(kid, names) for kid in both]
        return self.node("dict", *(kid for kid in kids if kid.label != "text"))

    def _walrus(self, tree: ast.NamedExpr, names: Names) -> GraphNode:
        found = self.value(tree.value, names)
        self.bind(tree.target, found, names)
        return found

    def _inside(
        self, tree: ast.Starred | ast.Await | ast.FormattedValue, names: Names
    ) -> GraphNode:
        return self.value(tree.value, names)

    def _yield(self, tree: ast.Yield | ast.YieldFrom, names: Names) -> GraphNode:
        found = self.value(tree.value, names)
        self.returned.append(self.node("collect", found) if isinstance(tree, ast.Yield) else found)
        return found

    def _lambda(self, tree: ast.Lambda, names: Names) -> GraphNode:
        return self.as_value(Function(tree, names))

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, tree: ast.Call, names: Names) -> GraphNode:
        plain = _plain(tree)
        if not isinstance(plain, ast.Call):
            return self.value(plain, names)
        if function := self.function(tree.func, names):
            args = [self.value(arg, names) for arg in tree.args]
            named = {k.arg: self.value(k.value, names) for k in tree.keywords if k.arg}
            return self.called(function, args, named)
        name, kids = self.callee(tree.func, names)
        if name in ("map", "filter") and len(tree.args) > 1:
            return self.mapped(name, tree, names)
        kids += [self.value(arg, names) for arg in tree.args]
        keywords = {k.arg or "": self.value(k.value, names) for k in tree.keywords}
        return self.operation(name, kids, keywords)

    def callee(self, tree: ast.expr, names: Names) -> tuple[str, list[GraphNode]]:
        """The name of what is called, and the object whose method it is."""
        if isinstance(tree, ast.Name):
            found = names.get(tree.id)
            if found is None:
                return tree.id[:MAX_NAME], []
        if not isinstance(tree, ast.Attribute):
            return "call", [self.value(tree, names)]
        tree.value = _plain(tree.value)
        path = _path(tree)
        if path and (path[0] in self.modules or path[-2:-1] == ("Tensor",)):
            return tree.attr[:MAX_NAME], []
        base = self.value(tree.value, names)
        if base.label == "self":
            return "call", [self.node(FIELD, base)]
        return tree.attr[:MAX_NAME], [base]

    def operation(
        self, name: str, kids: list[GraphNode], keywords: dict[str, GraphNode]
    ) -> GraphNode:
        """The value of a call of a library's function, or of a method."""
        if name.startswith("__") and name.endswith("__"):
            name = name.strip("_")
        name = name.rstrip("_") or name
        alpha = keywords.pop("alpha", None) if name in ("add", "sub") else None
        if alpha is not None and len(kids) > 1:
            kids[1] = self.many("*", [kids[1], alpha])
        if name in ("addcmul", "addcdiv", "lerp") and (found := self.fused(name, kids, keywords)):
            return found
        if name == "linear" and len(kids) == 2:
            return self.node("@", kids[0], self.node("T", kids[1]))
        if name in TRANSPARENT and kids:
            return kids[0]
        if name == "dict":
            return self.node("dict", *kids, *keywords.values())
        return self.apply(CALLED.get(name, name), [*kids, *keywords.values()])

    def fused(
        self, name: str, kids: list[GraphNode], keywords: dict[str, GraphNode]
    ) -> GraphNode | None:
        """torch.addcmul, torch.addcdiv and torch.lerp, written out."""
        needed = 2 if name == "lerp" and "weight" in keywords else 3
        if len(kids) < needed:
            return None
        x, a, *rest = kids
        b = rest[0] if rest else keywords["weight"]
        if name == "lerp":
            return self.many("+", [x, self.many("*", [b, self.apply("-", [a, x])])])
        b = self.power(b, self.constant(-1)) if name == "addcdiv" else b
        return self.many("+", [x, self.many("*", [a, b, *keywords.values()])])

    def mapped(self, name: str, tree: ast.Call, names: Names) -> GraphNode:
        """map and filter, as comprehensions."""
        items = [self.item(self.value(arg, names)) for arg in tree.args[1:]]
        if function := self.function(tree.args[0], names):
            found = self.called(function, items, {})
        else:
            called, kids = self.callee(tree.args[0], names)
            found = self.operation(called, [*kids, *items], {})
        if name == "map":
            return self.node("collect", found)
        self.test(found)
        return self.node("collect", items[0])

    def function(self, tree: ast.expr, names: Names) -> Function | None:
        """The function of the file that an expression names, if it does."""
        if isinstance(tree, ast.Lambda):
            return Function(tree, names)
        if isinstance(tree, ast.Name):
            found = names.get(tree.id)
            return found if isinstance(found, Function) else None
        if isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Name):
            base = names.get(tree.value.id)
            if isinstance(base, GraphNode) and base.label in ("self", "class"):
                found = self.methods.get(tree.attr)
                return found if isinstance(found, Function) else None
        return None

    def called(
        self, function: Function, args: list[GraphNode], named: dict[str, GraphNode]
    ) -> GraphNode:
        """What a function returns for these arguments."""
        self.calls += 1
        if (
            self.calls > MAX_CALLS
            or len(self.following) > DEEPEST_CALL
            or function.node in self.following
        ):
            return self.node("own", *args, *named.values())
        tree, inner = function.node, self.copied(function.seen)
        args = [function.bound, *args] if function.bound else args
        parameters = [*tree.args.posonlyargs, *tree.args.args]
        for parameter in (*parameters, *tree.args.kwonlyargs):
            inner[parameter.arg] = named.get(parameter.arg) or self.node("argument")
        for extra in (tree.args.vararg, tree.args.kwarg):
            if extra:
                inner[extra.arg] = self.node("tuple", *args[len(parameters) :])
        inner |= {p.arg: arg for p, arg in zip(parameters, args, strict=False)}
        outer, self.returned = self.returned, []
        self.following.append(tree)
        try:
            if isinstance(tree, ast.Lambda):
                return self.value(tree.body, inner)
            self.run(tree.body, inner)
            return self.phi(self.returned) if self.returned else self.node("is None")
        finally:
            self.following.pop()
            self.returned = outer

    # --- statements -------------------------------------------------------------------------------

    def run(self, body: Iterable[ast.stmt], names: Names) -> bool:
        """Read statements in order; return whether what follows them is never reached."""
        for statement in body:
            self.spend(1)
            before, self.at = self.at, (statement.lineno, statement.end_lineno or statement.lineno)
            try:
                read = STATEMENTS.get(type(statement))
                ended = read(self, statement, names) if read else self._other(statement, names)
            except RecursionError:  # only this statement is left out
                ended = False
            finally:
                self.at = before
            if ended:
                return True
        return False

    def _other(self, statement: ast.stmt, names: Names) -> bool:
        for kid in ast.iter_child_nodes(statement):
            if isinstance(kid, ast.expr):
                self.root(self.value(kid, names))
        return isinstance(statement, ENDS)

    def _nothing(self, statement: ast.stmt, names: Names) -> bool:
        return False

    def _return(self, statement: ast.Return, names: Names) -> bool:
        if statement.value is not None:
            found = self.value(statement.value, names)
            self.returned.append(found)
            self.root(found)
        return True

    def _expression(self, statement: ast.Expr, names: Names) -> bool:
        tree = statement.value
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name | ast.Attribute):
            name = tree.func.id if isinstance(tree.func, ast.Name) else tree.func.attr
            if name in SILENT:
                return False
        found = self.value(tree, names)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
            self.changed(tree.func, found, names)
        elif not isinstance(tree, ast.Constant):
            self.root(found)
        return False

    def changed(self, method: ast.Attribute, found: GraphNode, names: Names) -> None:
        """A method was called as a statement: `xs.append(x)` and `x.add_(y)` give a new value."""
        name = method.attr
        if name in ("append", "add") and len(found.kids) == 2:
            found = self.node("collect", found.kids[1])
        elif name in ("append", "add") and found.label == "+":
            found = self.node("collect", found)
        if isinstance(method.value, ast.Name) and (
            found.label == "collect" or (name.endswith("_") and not name.endswith("__"))
        ):
            names[method.value.id] = found
        self.root(found)

    def _assign(self, statement: ast.Assign, names: Names) -> bool:
        value = statement.value
        for target in statement.targets:
            if isinstance(value, ast.Lambda) and isinstance(target, ast.Name):
                names[target.id] = Function(value, names)
            elif isinstance(value, ast.Name) and isinstance(target, ast.Name):
                found = names.get(value.id)
                names[target.id] = found if found is not None else self.value(value, names)
            else:
                self.bind(target, self.value(value, names), names)
        return False

    def _annotated(self, statement: ast.AnnAssign, names: Names) -> bool:
        if statement.value is not None:
            self._assign(ast.Assign([statement.target], statement.value), names)
        return False

    def _augmented(self, statement: ast.AugAssign, names: Names) -> bool:
        kids = [self.value(statement.target, names), self.value(statement.value, names)]
        found = self.apply(OPERATORS[type(statement.op)], kids)
        self.root(found)
        self.bind(statement.target, found, names)
        return False

    def bind(self, target: ast.AST, value: GraphNode, names: Names) -> None:
        """target = value"""
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for place, one in enumerate(target.elts):
                inner = one.value if isinstance(one, ast.Starred) else one
                self.bind(inner, self.element(value, self.constant(place)), names)
        elif isinstance(target, ast.Attribute):
            base = self.value(target.value, names)
            if base.label == "self" and (path := _path(target)):
                names[".".join(path)] = value
            self.root(value if target.attr == "data" else self.node("set", base, value))
        elif isinstance(target, ast.Subscript):
            base, key = self.value(target.value, names), self.value(target.slice, names)
            if base.label == "dict" and isinstance(target.value, ast.Name):
                names[target.value.id] = self.node("dict", key, value)
            self.root(self.node("set", base, key, value))

    def _if(self, statement: ast.If, names: Names) -> bool:
        test = self.value(statement.test, names)
        if (known := _known(test)) is not None:
            return self.run(statement.body if known else statement.orelse, names)
        self.test(test)
        return self.branches([statement.body, statement.orelse], names)

    def branches(self, bodies: Iterable[list[ast.stmt]], names: Names) -> bool:
        """Read alternatives; a variable that they leave with different values has any of them."""
        left = []
        for body in bodies:
            inner = self.copied(names)
            if not self.run(body, inner):
                left.append(inner)
                self.spend(len(inner) // 2)
        for name in dict.fromkeys(name for inner in left for name in inner):
            found = [inner[name] for inner in left if name in inner]
            values = [one for one in found if isinstance(one, GraphNode)]
            names[name] = self.phi(values) if len(values) == len(found) else found[0]
        return not left

    def _for(self, statement: ast.For | ast.AsyncFor, names: Names) -> bool:
        self.bind(statement.target, self.item(self.value(statement.iter, names)), names)
        self.loop(statement, names)
        return False

    def loop(self, statement: ast.For | ast.AsyncFor | ast.While, names: Names) -> None:
        """Read the body as if it ran once, so that a loop's sum is the sum's term."""
        before = self.copied(names)
        self.run(statement.body, names)
        self.spend(len(names) // 4)
        for name, value in names.items():  # what the next round may use
            if isinstance(value, GraphNode) and name in before and before[name] is not value:
                self.root(value)
        self.run(statement.orelse, names)

    def _while(self, statement: ast.While, names: Names) -> bool:
        self.spend(len(statement.body))
        counted = _counter(statement)
        if counted and isinstance(start := names.get(counted[0]), GraphNode) and start.number == 0:
            top = self.node("range", self.value(counted[1], names))
            names[counted[0]] = self.item(top)
            body = [one for one in statement.body if not _advances(one, counted[0])]
            self.loop(ast.While(statement.test, body, statement.orelse), names)
            return False
        test = self.value(statement.test, names)
        if (known := _known(test)) is False:
            return False
        if known is None:
            self.test(test)
        self.loop(statement, names)
        return False

    def _with(self, statement: ast.With | ast.AsyncWith, names: Names) -> bool:
        for one in statement.items:
            found = self.value(one.context_expr, names)
            self.root(found)
            if one.optional_vars:
                self.bind(one.optional_vars, found, names)
        return self.run(statement.body, names)

    def _try(self, statement: ast.Try, names: Names) -> bool:
        ended = self.run([*statement.body, *statement.orelse], names)
        for handler in statement.handlers:
            self.run(handler.body, self.copied(names))
        return self.run(statement.finalbody, names) or (ended and not statement.handlers)

    def _match(self, statement: ast.Match, names: Names) -> bool:
        subject = self.value(statement.subject, names)
        for case in statement.cases:
            for part in ast.walk(case.pattern):
                self.spend(1)
                if isinstance(part, ast.MatchValue):
                    self.root(self.node("eq", subject, self.value(part.value, names)))
        self.branches([case.body for case in statement.cases], names)
        return False

    # --- definitions ------------------------------------------------------------------------------

    def module(self, tree: ast.Module) -> None:
        """Read a file: first the names that it defines, so that their order makes no difference."""
        names: Names = {}
        for one in ast.walk(tree):
            if isinstance(one, ast.Import):
                self.modules |= {(a.asname or a.name).split(".")[0] for a in one.names}
            elif isinstance(one, ast.ImportFrom):
                self.imported(one, names)
        for one in tree.body:
            if isinstance(one, ast.FunctionDef):
                names[one.name] = Function(one, names)
            elif isinstance(one, ast.ClassDef):
                names[one.name] = self.node("class")
            elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Lambda):
                self._assign(one, names)
        for one in tree.body:
            self.until = self.steps + MAX_STEPS
            try:
                self.run([one], names)
            except _TooMuch:  # what was found until here counts
                self.following, self.returned = [], []
            self.until = self.most
            self.spend(0)

    def imported(self, statement: ast.ImportFrom, names: Names) -> None:
        for alias in statement.names:
            bound = alias.asname or alias.name
            if alias.name[:1].islower() and (statement.module, alias.name) in MODULES:
                self.modules.add(bound)
            elif alias.asname:
                names[bound] = self.node(CALLED.get(alias.name, alias.name))

    def _function(self, statement: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> bool:
        names[statement.name] = function = Function(statement, names)
        for decorator in statement.decorator_list:
            self.root(self.value(decorator, names))
        if not self.following:
            self.calls = 0
            self.called(function, [], {})
        return False

    def _class(self, statement: ast.ClassDef, names: Names) -> bool:
        outer, self.methods = self.methods, {}
        self.spend(len(statement.body))
        inner = self.copied(names)
        for one in statement.body:
            if not isinstance(one, ast.FunctionDef):
                continue
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod"
                         for d in one.decorator_list)  # fmt: skip
            bound = None if static else self.node("self")
            self.methods[one.name] = Function(one, names, bound)
        self.run((one for one in statement.body if not isinstance(one, ast.FunctionDef)), inner)
        for method in self.methods.values():
            assert isinstance(method, Function)
            if not self.following:
                self.calls = 0
                self.called(method, [], {})
        self.methods = outer
        return False


def _plain(tree: ast.expr) -> ast.expr:
    """x.a for getattr(x, "a"), also where the result is called."""
    if not isinstance(tree, ast.Call):
        return tree
    if (isinstance(tree.func, ast.Name) and tree.func.id == "getattr" and len(tree.args) > 1
            and isinstance(name := tree.args[1], ast.Constant)
            and isinstance(name.value, str) and name.value.isidentifier()):  # fmt: skip
        found = ast.Attribute(_plain(tree.args[0]), name.value, ast.Load())
        return ast.copy_location(found, tree)
    tree.func = _plain(tree.func)
    return tree


def _path(tree: ast.AST) -> tuple[str, ...]:
    """("torch", "nn", "Linear") for torch.nn.Linear; empty if it is something else, or long."""
    parts: list[str] = []
    while isinstance(tree, ast.Attribute) and len(parts) < MAX_PATH:
        parts.append(tree.attr)
        tree = tree.value
    return (tree.id, *reversed(parts)) if isinstance(tree, ast.Name) else ()


def _known(test: GraphNode) -> bool | None:
    """The value of a condition that is constant."""
    if test.number is not None:
        return bool(test.number)
    if test.label == "eq" and test.kids and all(kid.number is not None for kid in test.kids):
        return test.kids[0].number == test.kids[-1].number
    return {"is True": True, "is False": False, "is None": False, "text": True}.get(test.label)


def _counter(statement: ast.While) -> tuple[str, ast.expr] | None:
    """The variable and the end of `while i < n: …; i += 1`."""
    test = statement.test
    if (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and isinstance(test.ops[0], (ast.Lt, ast.NotEq))
        and any(_advances(one, test.left.id) for one in statement.body)
    ):
        return test.left.id, test.comparators[0]
    return None


def _advances(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is `name += 1` or `name = name + 1`."""
    if isinstance(statement, ast.AugAssign):
        return _adds_one(statement.target, statement, name)
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.value, ast.BinOp)
        and _is_name(statement.value.left, name)
        and _adds_one(statement.targets[0], statement.value, name)
    )


def _adds_one(target: ast.expr, sum: ast.AugAssign | ast.BinOp, name: str) -> bool:
    one = sum.value if isinstance(sum, ast.AugAssign) else sum.right
    return (
        _is_name(target, name)
        and isinstance(sum.op, ast.Add)
        and isinstance(one, ast.Constant)
        and type(one.value) is int
        and one.value == 1
    )


def _is_name(tree: ast.expr, name: str) -> bool:
    return isinstance(tree, ast.Name) and tree.id == name


def _range(
    reader: _Reader, start: GraphNode, stop: GraphNode | None = None,
    step: GraphNode | None = None, *rest: GraphNode,
) -> GraphNode | None:  # fmt: skip
    if stop is not None and start.number == 0 and (step is None or step.number == 1):
        return reader.node("range", stop)
    return None


def _sum(reader: _Reader, value: GraphNode, *rest: GraphNode) -> GraphNode | None:
    return value.kids[0] if value.label == "collect" and value.kids else None


# Rules that need more than a name: each returns None where it does not apply.
RULES: dict[str, Callable[..., GraphNode | None]] = {
    "range": _range,
    "sum": _sum,
    "all": _sum,
    "any": _sum,
    "next": lambda reader, value, *rest: reader.item(value),
    "sqrt": lambda reader, value, *rest: reader.power(value, reader.constant(0.5)),
    "rsqrt": lambda reader, value, *rest: reader.power(value, reader.constant(-0.5)),
    "square": lambda reader, value, *rest: reader.power(value, reader.constant(2)),
    "reciprocal": lambda reader, value, *rest: reader.power(value, reader.constant(-1)),
    "**": lambda reader, value, *rest: reader.power(value, rest[0]) if rest else None,
    "neg": lambda reader, value, *rest: reader.times(-1, value),
    "[]": lambda reader, value, *rest: reader.element(value, rest[0]) if rest else None,
    "T": lambda reader, value, *rest: reader.node("T", value),
    "shape": lambda reader, value, *rest: (
        reader.element(reader.node("shape", value), rest[0]) if rest else None
    ),
}
COMPARED: dict[type[ast.AST], str] = {
    ast.Eq: "eq", ast.NotEq: "eq", ast.Is: "same", ast.IsNot: "same", ast.In: "in", ast.NotIn: "in",
}  # fmt: skip
MODULES = {("torch", "nn"), ("torch", "optim"), ("torch.nn", "functional"), ("torch", "linalg")}
EXPRESSIONS: dict[type[ast.AST], Callable[..., GraphNode]] = {
    ast.Constant: _Reader._constant, ast.JoinedStr: _Reader._text, ast.Name: _Reader._name,
    ast.Attribute: _Reader._attribute, ast.BinOp: _Reader._binary, ast.UnaryOp: _Reader._unary,
    ast.Compare: _Reader._compare, ast.BoolOp: _Reader._bool, ast.IfExp: _Reader._if_else,
    ast.ListComp: _Reader._comprehension, ast.SetComp: _Reader._comprehension,
    ast.GeneratorExp: _Reader._comprehension, ast.DictComp: _Reader._comprehension,
    ast.Subscript: _Reader._subscript, ast.Slice: _Reader._slice, ast.Tuple: _Reader._sequence,
    ast.List: _Reader._sequence, ast.Set: _Reader._sequence, ast.Dict: _Reader._dict,
    ast.NamedExpr: _Reader._walrus, ast.Starred: _Reader._inside, ast.Await: _Reader._inside,
    ast.Yield: _Reader._yield, ast.YieldFrom: _Reader._yield, ast.Lambda: _Reader._lambda,
    ast.Call: _Reader._call,
}  # fmt: skip
STATEMENTS: dict[type[ast.AST], Callable[..., bool]] = {
    ast.Return: _Reader._return, ast.Expr: _Reader._expression, ast.Assign: _Reader._assign,
    ast.AnnAssign: _Reader._annotated, ast.AugAssign: _Reader._augmented, ast.If: _Reader._if,
    ast.For: _Reader._for, ast.AsyncFor: _Reader._for, ast.While: _Reader._while,
    ast.With: _Reader._with, ast.AsyncWith: _Reader._with, ast.Try: _Reader._try,
    ast.Match: _Reader._match, ast.FunctionDef: _Reader._function,
    ast.AsyncFunctionDef: _Reader._function, ast.ClassDef: _Reader._class,
    ast.Import: _Reader._nothing, ast.ImportFrom: _Reader._nothing, ast.Pass: _Reader._nothing,
    ast.Delete: _Reader._nothing, ast.Global: _Reader._nothing, ast.Nonlocal: _Reader._nothing,
}  # fmt: skip
