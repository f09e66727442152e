"""Generate trials for the hidden tests by applying rules to the reference.

They complement the hand-written mistakes and variants. A hidden test must be able to handle
anything that a student's code returns: an exception in the test itself would be the grader's fault,
and a constant that passes would earn points for nothing. Because the rules apply to every problem,
they also find such faults in problems that are added later. The trials are our own code, so they
run in the process of the tests, without a sandbox.

`trial_kinds.KINDS` defines the expected outcome of each kind.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from grader.course.courses import Problem
from grader.proof import rewrites

REWRITES = [Path(__file__).with_name(f"{name}.py") for name in ("rewrites", "rewrites_tensors")]
# Programs that no hidden test may accept.
JUNK_PROGRAMS = {
    "prints nothing": "",
    "prints an empty line": "print()\n",
    "prints 0": "print(0)\n",
    "prints its arguments": "import sys\nprint(*sys.argv[1:])\n",
    "prints its input": "import sys\nprint(sys.stdin.read(), end='')\n",
    "prints the number of lines": "import sys\nprint(len(sys.stdin.readlines()))\n",
    "copies its input to stderr": "import sys\nprint(sys.stdin.read(), file=sys.stderr)\n",
    "prints bytes that are no text": "import sys\nsys.stdout.buffer.write(bytes(range(256)))\n",
    **{f"exits with {code}": f"raise SystemExit({code})\n" for code in (1, 2, 255)},
    "exits with a message": "raise SystemExit('usage: it takes no such argument')\n",
    "closes its output": "import sys\nsys.stdout.close()\n",
}
# What torch calls by itself while a module compiles or traces is no call of the student's.
CALLS_OF_TORCH = """
import torch


class _Product(torch.nn.Module):
    def forward(self, x):
        return x.sin() @ x.mT


_x, _unused = torch.ones(2, 2), torch.compile(lambda x: torch.nn.functional.relu(x))
for _backend in ("eager", "aot_eager", "inductor"):
    torch.compile(_Product(), backend=_backend)(_x)
torch.export.export(_Product(), (_x,)).run_decompositions()
torch.jit.trace(_Product(), _x)(_x), torch.jit.script(_Product())(_x)
torch.library.custom_op("m::copied", torch.clone, mutates_args=(), schema="(Tensor x) -> Tensor")
with torch.autocast("cpu"), torch.profiler.record_function("product"):
    torch.vmap(_Product())(torch.ones(1, 2, 2))
torch.clear_autocast_cache()
"""
# Nor is it a mistake that a module seeds and sets these, whichever test is the first to import it.
SETTINGS = """
import logging, random, warnings, numpy, torch
random.seed(0), numpy.random.seed(0), torch.manual_seed(0), torch.set_num_threads(4)
numpy.seterr(all="raise"), warnings.simplefilter("error"), logging.basicConfig(level=logging.DEBUG)
torch.set_printoptions(precision=2), torch.use_deterministic_algorithms(True)
"""
# Exceptions that argument checks raise.
REFUSALS = ("ValueError", "IndexError", "TypeError", "KeyError")
# A function with an argument of one of these types is not a formula for numbers.
NO_FORMULA = ("Tensor", "Module", "Callable", "Optimizer", "Iterable", "Sequence", "Path")


def derived(problem: Problem, reference: str) -> Iterator[tuple[str, str, dict[str, bytes]]]:
    """Yield every trial of a problem: its kind, its name, and the files that it replaces.

    Args:
        reference: The source of the reference module.
    """
    if problem.program:
        for name, source in JUNK_PROGRAMS.items():
            yield "junk", name, {problem.path: source.encode()}
        yield "words", "other words", {problem.path: _rewritten(reference, _OtherWords())}
        return
    names = problem.functions
    classes = {
        node.name for node in ast.parse(reference).body if isinstance(node, ast.ClassDef)
    } & set(names)
    for table, which in _names_of_junk():
        how = f"rewrites.junk(globals(), {names}, {table}[{which!r}]"
        yield "junk", which, _with_rewrites(problem, reference, f"{how})")
        if classes:
            how = f"{how}, hollow=False)"
            yield "junk", f"{which} for an instance", _with_rewrites(problem, reference, how)
    yield "words", "other words", {problem.path: _rewritten(reference, _OtherWords())}
    yield "unchecked", "no checks", {problem.path: _rewritten(reference, _NoChecks())}
    for which in rewrites.TYPES:
        if "numpy" in sys.modules or not which.startswith("numpy"):
            how = f"rewrites.map_answers(globals(), {names}, rewrites.TYPES[{which!r}])"
            yield "types", which, _with_rewrites(problem, reference, how)
    if any(name.startswith("torch.") for name in problem.forbidden):
        yield "import", "calls of torch", {problem.path: (reference + CALLS_OF_TORCH).encode()}
    if "\nimport torch\n" in reference:
        yield "import", "settings", {problem.path: (reference + SETTINGS).encode()}
    yield from _other_arithmetic(problem, reference)
    if _returns_tensors(reference, names):
        how = f"rewrites_tensors.unwritten(rewrites, globals(), {names})"
        yield "unwritten", "torch.empty", _with_rewrites(problem, reference, how)


def _with_rewrites(problem: Problem, module: str, call: str) -> dict[str, bytes]:
    """The files of a submission whose module, after its own code, makes this call of `rewrites`."""
    named = [path.stem for path in REWRITES if f"{path.stem}." in call or path.stem == "rewrites"]
    source = f"{module}\nfrom assignment import {', '.join(named)}\n\n{call}\n"
    files = {f"assignment/{path.name}": path.read_bytes() for path in REWRITES}
    return {problem.path: source.encode(), **files}


def _names_of_junk() -> Iterator[tuple[str, str]]:
    """The table and the name of all junk, for the libraries that this process has imported."""
    yield from (("rewrites.JUNK", which) for which in rewrites.JUNK)
    if "numpy" in sys.modules:
        yield from (("rewrites.OF_NUMPY", which) for which in rewrites.OF_NUMPY)
    if "torch" in sys.modules:
        from grader.proof import rewrites_tensors

        yield from (("rewrites_tensors.JUNK", which) for which in rewrites_tensors.JUNK)


def _other_arithmetic(
    problem: Problem, reference: str
) -> Iterator[tuple[str, str, dict[str, bytes]]]:
    """Yield trials that compute formulas by logarithms or fractions, and sum tensors backwards."""
    if formulas := _formulas(reference, problem.functions):
        for how in ("logarithms", "fractions"):
            module = _rewritten(reference, _Arithmetic(formulas, how)).decode()
            call = f"rewrites.map_answers(globals(), {sorted(formulas)}, rewrites.as_float)"
            yield "arithmetic", how, _with_rewrites(problem, module, call)
    if _returns_tensors(reference, problem.functions) and "FlopCounter" not in problem.functions:
        call = f"rewrites_tensors.sums_backwards(globals(), {problem.functions})"
        yield "arithmetic", "sums backwards", _with_rewrites(problem, reference, call)


def _rewritten(source: str, transformer: ast.NodeTransformer) -> bytes:
    tree = ast.fix_missing_locations(transformer.visit(ast.parse(source)))
    return f"{ast.unparse(tree)}\n".encode()


class _OtherWords(ast.NodeTransformer):
    """Replace the message of every error."""

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [ast.Constant("that cannot be done with this")]
            node.exc.keywords = []
        return node


class _NoChecks(ast.NodeTransformer):
    """Remove argument checks: every `if` that only raises one of `REFUSALS`."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        refuses = (
            len(node.body) == 1
            and isinstance(node.body[0], ast.Raise)
            and _name_of(node.body[0]) in REFUSALS
        )
        if not refuses:
            return node
        return ast.If(ast.Constant(True), node.orelse, []) if node.orelse else ast.Pass()


def _name_of(node: ast.Raise) -> str:
    called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return called.id if isinstance(called, ast.Name) else ""


class _Arithmetic(ast.NodeTransformer):
    """Replace products and quotients in some functions by calls of `rewrites`."""

    def __init__(self, functions: set[str], how: str) -> None:
        self._functions, self._how = functions, how

    def visit_Module(self, node: ast.Module) -> ast.Module:
        body = [
            _Products(self._how).visit(n) if getattr(n, "name", "") in self._functions else n
            for n in node.body
        ]
        future = [i for i, n in enumerate(body) if getattr(n, "module", "") == "__future__"]
        start = max(future, default=0)
        body.insert(start + 1, ast.parse("from assignment import rewrites").body[0])
        node.body = body
        return node


class _Products(ast.NodeTransformer):
    def __init__(self, how: str) -> None:
        self._how = how

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, (ast.Mult, ast.Div)):
            return node
        sign = ast.Constant(1 if isinstance(node.op, ast.Mult) else -1)
        function = ast.parse(f"rewrites.by_{self._how}", mode="eval").body
        return ast.Call(function, [node.left, node.right, sign], [])


def _formulas(reference: str, names: list[str]) -> set[str]:
    """The functions that compute floats from numbers."""
    found = set()
    for node in ast.parse(reference).body:
        if not isinstance(node, ast.FunctionDef) or node.name not in names:
            continue
        arguments = [*node.args.args, *node.args.kwonlyargs]
        given = [ast.unparse(a.annotation) for a in arguments if a.annotation]
        returns = ast.unparse(node.returns) if node.returns else ""
        if returns in ("float", "tuple[float, float]") and not any(
            word in text for text in given for word in NO_FORMULA
        ):
            found.add(node.name)
    return found


def _returns_tensors(reference: str, names: list[str]) -> bool:
    """Whether a function returns a tensor, or a class is a layer."""
    nodes = [node for node in ast.parse(reference).body if getattr(node, "name", "") in names]
    bases = [ast.unparse(b) for node in nodes if isinstance(node, ast.ClassDef) for b in node.bases]
    returned = [ast.unparse(r) for node in nodes if (r := getattr(node, "returns", None))]
    return any("Tensor" in text for text in returned) or any(b.endswith("Module") for b in bases)
