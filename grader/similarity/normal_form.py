"""The normal form of Python code: its syntax without names of its own, words and annotations.

A name that the file itself defines is like every other such name. Names of others stay, as in
`x.exp()` and `dim=0`. A text is like every other text. Comments, layout and annotations are left
out, `b > a` is `a < b`, and the operands of + and * have no order.

The features of a file are the hashes of its expressions and statements up to a few levels deep
(Baxter et al., "Clone detection using abstract syntax trees", ICSM 1998). A statement is no part of
the statement around it. So its place, and what stands before and after it, make no difference.
"""

import ast
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_SOURCE = 400_000  # characters of a source that is read
DEPTHS = (2, 3)  # levels below a node that its features include
FEWEST_NODES = 6  # a part with fewer nodes is in every program
LEFT_OUT = {"annotation", "returns", "type_params", "ctx", "op", "ops"}  # fields of syntax trees
TURNED = {"Gt": "Lt", "GtE": "LtE"}
UNORDERED = {"Add", "Mult", "BitAnd", "BitOr", "BitXor", "Eq", "NotEq"}
MASK = (1 << 64) - 1
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Feature(NamedTuple):
    """One part of the syntax: its hash, and the lines where its top is written."""

    hash: int
    first: int
    last: int


class Definition(NamedTuple):
    """A function or class at the top of a file, and its lines."""

    name: str
    first: int
    last: int


class _Node(NamedTuple):
    """A node of the syntax tree, with the places of its parts in the list of all nodes."""

    label: str
    parts: list[int]
    first: int
    last: int


def read(source: str) -> tuple[list[Feature], list[Definition]]:
    """The features of a source, each once, and its definitions; both in the order of their lines.

    Raises:
        SyntaxError: The source is not Python, or too long, or nested too deeply; the message
            continues a sentence that begins with its name.
    """
    if len(source) > MAX_SOURCE:
        raise SyntaxError(f"has more than {MAX_SOURCE:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those for "\\d" in a student's text
            tree = ast.parse(source)
    except (RecursionError, MemoryError):
        raise SyntaxError("is nested too deeply, or too large") from None
    except (SyntaxError, ValueError) as e:
        raise SyntaxError(f"is not Python: {e.msg if isinstance(e, SyntaxError) else e}") from None
    nodes = _nodes(tree, set(_own(tree)))
    found = {key: Feature(key, node.first, node.last) for key, node in _parts(nodes)}
    return sorted(found.values(), key=lambda one: (one.first, one.last, one.hash)), [
        Definition(one.name, min([one.lineno, *(d.lineno for d in one.decorator_list)]),
                   one.end_lineno or one.lineno)
        for one in tree.body
        if isinstance(one, Function | ast.ClassDef)
    ]  # fmt: skip


def _own(tree: ast.Module) -> Iterator[str]:
    """The labels of the names and attributes that the file itself defines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield f"name {name}"
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                yield f"name {name}"
            case ast.Attribute(ctx=ast.Store()):
                yield _label(node)
            case ast.alias(name=name, asname=other):
                yield f"name {other or name.partition('.')[0]}"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"name {name}"
            case ast.ClassDef(name=name, body=body):
                yield f"name {name}"
                yield from (f".{one.name}" for one in body if isinstance(one, Function))


def _label(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name):
            return f"name {name}"
        case ast.Attribute(attr=name):
            return f".{name}"
        case ast.keyword(arg=name):
            return f"{name}="
        case ast.Constant(value=str() | bytes()) | ast.JoinedStr():
            return "text"
        case ast.Constant(value=int() | float() | complex() as number):
            return f"number {hash(number)}"  # 2 is 2.0, and its hash is the same in each process
        case ast.Constant(value=other):
            return repr(other)
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            return type(op).__name__
        case ast.Compare(ops=ops):
            return " ".join(type(op).__name__ for op in ops)
        case ast.AnnAssign():
            return "Assign"
    return type(node).__name__


def _nodes(module: ast.Module, own: set[str]) -> list[_Node]:
    trees: list[tuple[ast.AST, int, int]] = [(module, 1, 1)]
    nodes: list[_Node] = []
    for tree, first, last in trees:  # which grows
        label, children = _label(tree), _children(tree)
        if label in TURNED:
            label, children = TURNED[label], children[::-1]
        parts = [n for n, one in enumerate(children, len(trees)) if not isinstance(one, ast.stmt)]
        trees += [
            (one, getattr(one, "lineno", first), getattr(one, "end_lineno", last))
            for one in children
        ]
        nodes.append(_Node("own" if label in own else label, parts, first, last))
    return nodes


def _children(tree: ast.AST) -> list[ast.AST]:
    if isinstance(tree, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return []
    values = [value for name, value in ast.iter_fields(tree) if name not in LEFT_OUT]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [one for each in lists for one in each if isinstance(one, ast.AST)]


def _parts(nodes: Sequence[_Node]) -> Iterator[tuple[int, _Node]]:
    """The hash of each node with the levels below it, down to each of DEPTHS."""
    hashes, sizes = [_hashed(node.label) for node in nodes], [1] * len(nodes)
    for depth in range(1, max(DEPTHS) + 1):
        hashes = [_mixed(node, hashes) for node in nodes]
        sizes = [1 + sum(sizes[part] for part in node.parts) for node in nodes]
        if depth in DEPTHS:
            for key, size, node in zip(hashes, sizes, nodes, strict=True):
                if size >= FEWEST_NODES:
                    yield key, node


def _mixed(node: _Node, hashes: Sequence[int]) -> int:
    below = [hashes[part] for part in node.parts]
    if node.label in UNORDERED:
        below.sort()
    return hash((_hashed(node.label), *below)) & MASK if below else _hashed(node.label)


@lru_cache(10_000)
def _hashed(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "big")
