"""Find forbidden library functions in a module's source, without running the source.

A use is forbidden where a problem asks the student to write that function. The grader checks a
submission with this module before running it, and `python -m assignment` checks the student's files
with it, so both report the same lines. Every use is one of two kinds:

certain   The use runs whenever the problem's own definitions run: as a base class, or in a call on
          every path, directly or through other functions of the module. It costs the problem all
          of its points, or, if the name is forbidden in one definition only, the tests of that
          definition.
possible  The use is behind a condition. It costs only the tests in which it runs, which the grader
          finds out by running the code.

Code that no definition of the problem reaches is not reported: an unused helper, or a self-check
under `if __name__ == "__main__":`. Names that the code computes are not found here either. The
grader detects those while the code runs.
"""

import ast
import codecs
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

RUNS_TEXT = ("exec", "eval", "compile", "__import__")
# What changes all code that runs afterwards, that of tests, too; and what to do instead.
SETTINGS = {
    "torch.set_default_dtype": "delete it, or pass dtype=",
    "torch.set_default_device": "delete it, or pass device=",
    "torch.set_default_tensor_type": "delete it, or pass dtype= or device=",
    "torch.set_flush_denormal": "delete it",
    "torch.set_grad_enabled": "delete it, or write it into a with",
    "torch.autograd.set_detect_anomaly": "delete it, or write it into a with",
}
MAX_USES = 100
# What git writes at the start of a line where two versions differ.
MARK = re.compile(rb"(<{7}|>{7}|\|{7})( |\r?$)|={7}\r?$")
UNFINISHED = (
    "a merge was not finished: keep the lines that you want, and delete the others and git's marks "
    "<<<<<<<, ======= and >>>>>>>"
)
# The methods that the tests certainly call, directly or through torch.
ENTRY_METHODS = {
    *("__init__", "__new__", "__call__", "__enter__", "__exit__", "__iter__", "__next__"),
    *("__torch_dispatch__", "__torch_function__", "forward", "backward", "setup_context", "step"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# The meaning of each name in the source: a dotted library name, a definition in the file, or None
# if it is unknown.
Names = dict[str, str | Definition | None]


class Use(TypedDict):
    """One line that uses a forbidden name: by calling it, or as a base class.

    `definition` is the definition in which the name is forbidden, or "" if it is forbidden in the
    whole problem.
    """

    problem: str
    definition: str
    name: str
    line: int
    certain: bool


class Found(TypedDict):
    """The findings in one file.

    `syntax` is None, or the line and the text of a syntax error. `stubs` are the lines of functions
    that do nothing but raise NotImplementedError there. `settings` are the lines and the names of
    SETTINGS that are called when the module is imported.
    """

    syntax: tuple[int, str] | None
    uses: list[Use]
    stubs: list[int]
    settings: list[tuple[int, str]]


def read(source: bytes, problems: Iterable[Mapping[str, Any]]) -> Found:
    """Read one file.

    Args:
        source: The file's content.
        problems: The problems whose definitions are in the file, each with the keys `id` and
            `functions`, and perhaps `forbidden` and `forbidden_in`, as in problems.toml.
    """
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _unreadable(1, "the file is in UTF-16: save it in UTF-8")
    try:
        tree = ast.parse(source)
        module = Module(tree)
    except SyntaxError as e:
        if line := unfinished_merge(source, e.lineno or 0):
            return _unreadable(line, UNFINISHED)
        return _unreadable(e.lineno or 0, e.msg)
    except (ValueError, RecursionError, MemoryError) as e:
        return _unreadable(0, str(e) or "nested too deeply to be parsed")
    return {
        "syntax": None,
        "uses": [use for problem in problems for use in _uses(module, problem)],
        "stubs": _stubs(tree),
        "settings": _settings(module),
    }


def unfinished_merge(source: bytes, line: int) -> int:
    """The line where git left the marks of a merge that was not finished; 0 if it left none.

    Args:
        source: A file that is not Python.
        line: Where Python noticed that. A bracket that an earlier line opens moves it.
    """
    marks = {n: text[:7] for n, text in enumerate(source.splitlines(), 1) if MARK.match(text)}
    if {b"<<<<<<<", b">>>>>>>"} <= {*marks.values()}:
        return next(n for n, mark in marks.items() if mark == b"<<<<<<<")
    return line if line in marks else 0


def _settings(module: "Module") -> list[tuple[int, str]]:
    uses = _Walk(module, "").uses([*SETTINGS])
    found = ((line, name) for name, line, _ in uses if line not in module.contexts)
    return [(line, name) for line, name in found if name in SETTINGS][:MAX_USES]


def _unreadable(line: int, why: str) -> Found:
    return {"syntax": (line, why), "uses": [], "stubs": [], "settings": []}


def _stubs(tree: ast.Module) -> list[int]:
    """The lines on which functions raise NotImplementedError and do nothing else."""
    functions = (node for node in ast.walk(tree) if isinstance(node, Function))
    bodies = (f.body[1:] if ast.get_docstring(f, clean=False) else f.body for f in functions)
    return [
        body[0].lineno
        for body in bodies
        if len(body) == 1 and isinstance(body[0], ast.Raise) and _is_of_a_stub(body[0])
    ]


def _is_of_a_stub(statement: ast.Raise) -> bool:
    raised = statement.exc
    if isinstance(raised, ast.Call):
        if raised.keywords or not all(isinstance(each, ast.Constant) for each in raised.args):
            return False
        raised = raised.func
    is_named = isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return is_named and statement.cause is None


def _uses(module: "Module", problem: Mapping[str, Any]) -> list[Use]:
    """The uses of one problem in the order of lines, each line and name once."""
    always, inside = problem.get("forbidden", []), problem.get("forbidden_in", {})
    if not always and not inside:
        return []
    found: dict[tuple[int, str, str], bool] = {}
    for start in ["", *problem["functions"]]:
        for name, line, certain in _Walk(module, start).uses([*always, *inside.get(start, [])]):
            everywhere = name in RUNS_TEXT or _is_one_of(name, always)
            key = (line, name, "" if everywhere else start)
            found[key] = certain or found.get(key, False)
    uses = [
        Use(problem=problem["id"], definition=definition, name=name, line=line, certain=certain)
        for (line, name, definition), certain in sorted(found.items())
    ]
    return sorted(uses, key=lambda use: not use["certain"])[:MAX_USES]


class Module:
    """One parsed file: its top-level definitions, and the meaning of the names in each scope."""

    def __init__(self, tree: ast.Module) -> None:
        self.body = tree.body
        self.definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
        self._defined_in: dict[Definition, Names] = {}
        # The lines of calls whose effect ends with a block or with a function.
        self.contexts = {call.lineno for node in ast.walk(tree) for call in _limited_to(node)}
        self.names = self.scope(tree.body, {name: name for name in RUNS_TEXT})

    def scope(self, body: list[ast.stmt], outer: Names, arguments: Iterable[str] = ()) -> Names:
        """The meaning of the names in the body of a module or a function.

        A name that is bound to two things is unknown.
        """
        names: Names = {**outer, **dict.fromkeys(arguments)}
        meanings: dict[str, set[str | Definition | None]] = {}
        for statement in _statements(body):
            for name, meaning in _bindings(statement, names):
                meanings.setdefault(name, set()).add(meaning)
                names[name] = meaning if len(meanings[name]) == 1 else None
            if isinstance(statement, Definition):
                self._defined_in[statement] = names
        return names

    def inside(self, function: Function) -> Names:
        """The meaning of the names in the body of a function."""
        a = function.args
        arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x)]
        outer = self._defined_in.get(function, self.names)
        return self.scope(function.body, outer, [x.arg for x in arguments])

    def alias(self, name: str) -> tuple[str, int] | None:
        """The library's name and the line of an alias such as `AdamW = torch.optim.AdamW`."""
        meaning = self.names.get(name)
        if not isinstance(meaning, str):
            return None
        bound = (s for s in self.body if name in dict(_bindings(s, self.names)))
        return next(((meaning, s.lineno) for s in bound), None)


@dataclass(frozen=True)
class _Context:
    """The context of a piece of code: its names, its class, and whether it certainly runs."""

    names: Names
    owner: ast.ClassDef | None
    certain: bool

    @property
    def perhaps(self) -> "_Context":
        """The same context behind a condition."""
        return replace(self, certain=False) if self.certain else self


class _Walk:
    """Follow the code that runs with one definition, or, for "", when the module is imported.

    The walk keeps a queue, because a deeply nested source would cause a recursion error.
    """

    def __init__(self, module: Module, start: str) -> None:
        self._module = module
        self._start = start
        self._waiting: deque[tuple[ast.AST, _Context]] = deque()
        self._seen: set[tuple[ast.AST, bool]] = set()

    def uses(self, forbidden: list[str]) -> Iterator[tuple[str, int, bool]]:
        """Name, line and certainty of each forbidden name that is called or subclassed."""
        context = _Context(self._module.names, None, certain=True)
        definition = self._module.definitions.get(self._start)
        if not self._start:
            self._block(self._module.body, context)
        elif definition:
            self._enter(definition, context, entry=True)
        elif (alias := self._module.alias(self._start)) and _is_one_of(alias[0], forbidden):
            yield *alias, True
        while self._waiting:
            node, context = self._waiting.popleft()
            if isinstance(node, ast.Call):
                name = dotted(node.func, context.names)
                method = f"torch.Tensor.{getattr(node.func, 'attr', '')}"
                if name in RUNS_TEXT or _is_one_of(name, forbidden):
                    yield name, node.func.lineno, context.certain
                elif method in forbidden:
                    yield method, node.func.lineno, False  # perhaps not a tensor's method
            self._go_on(node, context)

    def _enter(self, node: Definition, context: _Context, *, entry: bool = False) -> None:
        """Enter the body of a function, or the code that runs when a class is instantiated.

        If it is an `entry`, the tests use this class, and so also call its methods.
        """
        if {(node, context.certain), (node, True)} & self._seen:
            return
        self._seen.add((node, context.certain))
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                self._call(base, context, entry=entry)
            inside = replace(context, owner=node)
            for method in node.body:
                called = ENTRY_METHODS if entry else {"__init__", "__new__"}
                if isinstance(method, Function) and method.name in called:
                    self._enter(method, inside)
        else:
            self._block(node.body, replace(context, names=self._module.inside(node)))

    def _call(self, target: ast.expr, context: _Context, *, entry: bool = False) -> None:
        """Enter the target of a call, or a base class; queue one that is not in this file."""
        called = self._definition(target, context)
        if called:
            owner = context.owner if isinstance(target, ast.Attribute) else None
            self._enter(called, replace(context, owner=owner), entry=entry)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            self._queue([ast.copy_location(ast.Call(target, [], []), target)], context)

    def _definition(self, target: ast.expr, context: _Context) -> Definition | None:
        """The definition in this file that `helper(…)`, or `self.helper(…)` in a class, calls."""
        owner = context.owner
        match target:
            case ast.Name(id=name):
                meaning = context.names.get(name)
                return meaning if isinstance(meaning, Definition) else None
            case ast.Attribute(value=ast.Name(id=name), attr=method) if owner:
                own = {m.name: m for m in owner.body if isinstance(m, Function)}
                return own.get(method) if name in ("self", "cls", owner.name) else None
        return None

    def _go_on(self, node: ast.AST, context: _Context) -> None:
        """Queue what runs with `node`: its parts, and the definition that it calls."""
        if isinstance(node, ast.Call) and self._definition(node.func, context):
            self._call(node.func, context)
        if isinstance(node, (ast.If, ast.IfExp)):
            self._queue([node.test], context)
            self._branch([] if never_holds(node.test) else node.body, context.perhaps)
            self._branch(node.orelse, context.perhaps)
        elif isinstance(node, ast.BoolOp):
            self._queue(node.values[:1], context)
            self._queue(node.values[1:], context.perhaps)
        elif isinstance(node, ast.Lambda):
            self._queue([node.args], context)
            self._queue([node.body], context.perhaps)
        elif isinstance(node, Function):
            # The body of a function runs only when the function is called.
            self._queue([*node.decorator_list, node.args], context)
        elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
            self._block(node.body, context.perhaps)
        else:
            for _, part in ast.iter_fields(node):
                self._branch(part, context)

    def _branch(self, part: Any, context: _Context) -> None:
        """Queue a part of a statement or an expression: a block, several nodes, or one node."""
        if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
            self._block(part, context)
        else:
            self._queue(part if isinstance(part, list) else [part], context)

    def _block(self, statements: list[ast.stmt], context: _Context) -> None:
        """Queue statements up to one that leaves the block; after a `return`, none is certain."""
        for statement in statements:
            self._queue([statement], context)
            if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                return
            if context.certain and _may_return(statement):
                context = context.perhaps

    def _queue(self, nodes: Iterable[Any], context: _Context) -> None:
        self._waiting.extend((node, context) for node in nodes if isinstance(node, ast.AST))


def _may_return(statement: ast.stmt) -> bool:
    """Whether a statement contains a `return`, behind a condition or in a loop."""
    return not isinstance(statement, Definition) and any(
        isinstance(node, ast.Return) for node in ast.walk(statement)
    )


def never_holds(test: ast.expr) -> bool:
    """Whether a condition is false whenever a module is imported and run.

    Such conditions are False, TYPE_CHECKING and `__name__ == "__main__"`.
    """
    match test:
        case ast.Constant(value=value):
            return not value
        case ast.Compare(
            ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]
        ) | ast.Compare(ast.Constant("__main__"), [ast.Eq()], [ast.Name("__name__")]):
            return True
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def _is_one_of(name: str, forbidden: list[str]) -> bool:
    return bool(name) and any(name == f or name.startswith(f + ".") for f in forbidden)


def _limited_to(node: ast.AST) -> list[ast.expr]:
    """The contexts of a `with`, and the decorators of a function."""
    if isinstance(node, ast.With):
        return [item.context_expr for item in node.items]
    return getattr(node, "decorator_list", [])


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of one scope in order, without those of inner functions."""
    waiting: deque[ast.AST] = deque(body)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, Definition):
            inner = (ast.stmt, ast.ExceptHandler, ast.match_case)
            found = [child for child in ast.iter_child_nodes(node) if isinstance(child, inner)]
            waiting.extendleft(reversed(found))


def _bindings(statement: ast.stmt, names: Names) -> Iterator[tuple[str, str | Definition | None]]:
    """The names that a statement itself binds, and their values."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name, statement
        case ast.Import():
            for alias in statement.names:
                top = alias.name.split(".")[0]
                yield alias.asname or top, alias.name if alias.asname else top
        case ast.ImportFrom():
            for alias in statement.names:
                known = f"{statement.module}.{alias.name}" if not statement.level else None
                yield alias.asname or alias.name, known
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, dotted(value, names) or None
        case _:
            yield from ((name, None) for name in _bound_inside(statement))


def _bound_inside(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds, except those that statements inside it bind."""
    parts: deque[ast.AST] = deque([statement])
    while parts:
        node = parts.popleft()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs)) and node.name:
            yield node.name
        inside = ast.iter_child_nodes(node)
        parts.extend(child for child in inside if not isinstance(child, ast.stmt))


def dotted(node: ast.AST, names: Names) -> str:
    """The full dotted name of a node, or "" if it is unknown.

    For example `torch.nn.Linear` for `nn.Linear`, if `nn` was imported from torch.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    known = names.get(node.id) if isinstance(node, ast.Name) else None
    return ".".join([known, *reversed(parts)]) if isinstance(known, str) else ""
