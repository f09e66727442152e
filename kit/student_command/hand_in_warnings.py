"""What the grader will find in the sources, which `check` and `submit` tell the student beforehand.

A student's machine is richer than the grader's: it has more packages, perhaps a newer Python, a
keyboard and files. So code can pass every public test and then earn nothing. No code is run here.

Forbidden uses are found by the function that the grader itself reads a submission with.
"""

import ast
import importlib.metadata
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import kit
from kit import forbidden_in_source, handing_in, name_of
from kit.forbidden_in_source import SETTINGS, Module, Names, Use, dotted, never_holds
from kit.safe_text import printable

# What newer versions of Python brought, as far as students may meet it.
NEWER = {
    "typing.override typing.TypeAliasType itertools.batched math.sumprod collections.abc.Buffer "
    "random.binomialvariate types.get_original_bases inspect.BufferFlags sys.monitoring": (3, 12),
    "typing.TypeIs typing.ReadOnly typing.NoDefault typing.is_protocol typing.get_protocol_members "
    "warnings.deprecated copy.replace math.fma queue.ShutDown os.process_cpu_count "
    "statistics.kde re.PatternError glob.translate dataclasses.recursive_repr": (3, 13),
    "annotationlib compression string.templatelib concurrent.interpreters functools.Placeholder "
    "heapq.heappush_max heapq.heappop_max heapq.heapify_max pathlib.types": (3, 14),
}
NEWER_NAMES = {name: version for names, version in NEWER.items() for name in names.split()}
# Without what only Windows has.
STANDARD = {*sys.stdlib_module_names, "assignment"} - {"winreg", "msvcrt", "winsound"}
# The package that a module of torch needs beside torch.
NEEDED_BY_TORCH = {"torch.utils.tensorboard": "tensorboard"}
NEEDS_A_KEYBOARD = ("breakpoint", "input", "pdb.set_trace", "IPython.embed", "code.interact")
READS = (
    *("open", "io.open", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile"),
    *("numpy.memmap", "torch.load", "torch.from_file", "pathlib.Path"),
)
BUILT_IN: Names = {name: name for name in ("breakpoint", "input", "open")}
# The text of a call that writes a file, or asks whether there is one.
WRITES = re.compile(
    r"""^[\w.]*open\(.*(, |mode=)'[rbt+]*[wax+][rbt+]*'|\.open\((mode=)?'[rbt+]*[wax+][rbt+]*'"""
    r"""|(write_text|write_bytes|touch|mkdir|exists|save\w*|tofile|to_csv)\(.*\)$""",
    re.DOTALL,
)
# What is inside may never run.
DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ExceptHandler)
CATCHES_IMPORTS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True)
class Foreseen:
    """A line that would cost points, or that may."""

    problem: Mapping[str, Any]  # the entry of problems.toml
    text: str  # what is wrong with the line, and what to do
    place: str  # such as "assignment/optimizers.py:12"
    # Of the problem, in two words, if it or a definition of it would certainly earn nothing.
    status: str = ""

    @property
    def certain(self) -> bool:
        """Whether the problem, or a definition of it, would earn nothing."""
        return bool(self.status)

    def __str__(self) -> str:
        return self.text


def foreseen(
    sources: Mapping[str, bytes], course: Mapping[str, Any], problems: list[dict[str, Any]]
) -> list[Foreseen]:
    """What would cost these problems points; of each problem what is certain, or else the rest.

    Args:
        sources: Maps paths such as "assignment/linear.py" to contents.
        course: What problems.toml contains; `problems` are some of its entries.
    """

    @cache
    def used(path: str) -> list[Use]:
        same = [p for p in problems if handing_in.path_of(p["module"]) == path]
        return forbidden_in_source.read(sources[path], same)["uses"]

    paths = [handing_in.path_of(p["module"]) for p in problems if p.get("program")]
    programs = {one for path in paths if path in sources for one in _imported_with(path, sources)}
    read = cache(lambda p: list(_differences(p, sources[p], sources, course, p in programs)))
    found: list[Foreseen] = []
    for problem in problems:
        path = handing_in.path_of(problem["module"])
        if path not in sources:
            continue
        uses = list(_uses(problem, path, used(path)))
        for one in _imported_with(path, sources):
            uses += [difference.of(problem, path) for difference in read(one)]
        uses = list({use.text: use for use in uses}.values())
        certain = [use for use in uses if use.certain]
        found += certain[:1] or [use for use in uses if use.text not in {f.text for f in found}]
    return found


def foreseen_under(
    root: Path, course: Mapping[str, Any], problems: list[dict[str, Any]]
) -> list[Foreseen]:
    """Like `foreseen`, for the files in a folder. A missing file counts as empty."""
    files = {file for file in (root / "assignment").rglob("*.py") if file.is_file()}
    paths = {file.relative_to(root).as_posix(): file for file in sorted(files)}
    kept = {p: f for p, f in paths.items() if not handing_in.reason_to_leave_out(p)}
    return foreseen({path: file.read_bytes() for path, file in kept.items()}, course, problems)


def _uses(problem: dict[str, Any], path: str, uses: list[Use]) -> Iterator[Foreseen]:
    """The lines that use a name which the problem forbids."""
    for use in (use for use in uses if use["problem"] == problem["id"]):
        if use["certain"] and use["definition"]:
            price = f"the tests of {use['definition']} would earn nothing"
        elif use["certain"]:
            price = f"the problem would earn 0 of {problem['points']} points"
        else:
            price = "a test in which that line runs would earn nothing"
        place = f"{path}:{use['line']}"
        used = f"uses {use['name']}, which you are asked to write yourself"
        text = f"{problem['id']}: {place} {used}; {price}"
        yield Foreseen(problem, text, place, "forbidden use" if use["certain"] else "")


# --- what the grader's machine lacks --------------------------------------------------------------


@dataclass(frozen=True)
class _OnlyHere:
    """A line that does something else on the grader's machine."""

    path: str
    line: int
    text: str  # what the line does, what the grader has, and what to write instead
    fails: bool  # whether the module certainly cannot be imported there

    def of(self, problem: dict[str, Any], path: str) -> Foreseen:
        """What it means for a problem in the module of this path, which may be another one."""
        place = f"{self.path}:{self.line}"
        if not self.fails:
            return Foreseen(problem, f"{place} {self.text}", place)
        also = f", which {path} imports," if path != self.path else ""
        price = f"the problem would earn 0 of {problem['points']} points"
        text = f"{problem['id']}: {place}{also} {self.text}; {price}"
        return Foreseen(problem, text, place, "fails there")


def _differences(
    path: str,
    source: bytes,
    sources: Mapping[str, bytes],
    course: Mapping[str, Any],
    is_program: bool,
) -> Iterator[_OnlyHere]:
    """All of one file; none in a file that is no Python here, which is told elsewhere."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            module = Module(tree)
            newer = _newer_syntax(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    if newer:
        yield _OnlyHere(path, *newer, fails=True)
    written = _written(tree)
    for node, certain in _running(tree):
        if isinstance(node, ast.Call) and _finds_its_input(node, module, written, is_program):
            continue
        for text, fails in _told_of(node, certain, module, sources, course):
            yield _OnlyHere(path, node.lineno, text, fails)


def _told_of(
    node: ast.stmt | ast.expr,
    certain: bool,
    module: Module,
    sources: Mapping[str, bytes],
    course: Mapping[str, Any],
) -> Iterator[tuple[str, bool]]:
    """What is told of one import, name or call, and whether the import of its module fails."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for name in _imported(node):
            if told := _about_import(name, node, sources, course):
                yield told, certain
                return
    elif isinstance(node, ast.Attribute):
        if (name := dotted(node, module.names)) in NEWER_NAMES:
            yield _about_newer(f"uses {name}", NEWER_NAMES[name]), certain
    elif isinstance(node, ast.Call):
        called = dotted(node.func, {**BUILT_IN, **module.names})
        if not called and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)  # perhaps the function imports it
        if called in NEEDS_A_KEYBOARD:
            yield f"calls {called}(), but nobody is at the grader's keyboard: delete it", False
        elif called in SETTINGS and node.lineno not in module.contexts:
            change = f"changes all code that runs after it: {SETTINGS[called]}"
            yield f"{called}() {change}", False
        elif called in READS and (file := _file_of_this_machine(node)):
            yield f"reads {file}, a file that the grader does not have", False
        elif certain and _needs_a_gpu(node):
            which = "needs a GPU when the module is imported, and the grader may have none"
            yield f"{which}: ask torch.cuda.is_available() first", False
        elif not course.get("files") and called != "pathlib.Path" and _reads_beside(node, called):
            yield "reads a file beside the module, which is not handed in", False


def _finds_its_input(call: ast.Call, module: Module, written: set[str], is_program: bool) -> bool:
    """Whether a call reads what the module has written, or what a test gives a program."""
    name = str(call.args[0].value) if _file_of_this_machine(call) else ""  # type: ignore[attr-defined]
    is_relative = bool(name) and not re.match(r"[/~\\]|\w:", name)
    is_input = dotted(call.func, {**BUILT_IN, **module.names}) == "input"
    return name in written or (is_program and (is_input or is_relative))


def _written(tree: ast.Module) -> set[str]:
    """The constant texts in calls that write a file, its name among them, and names that exist."""
    values = {target.id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
              for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
    found: list[Any] = [".", "/dev/null"]  # which every machine has
    for call in ast.walk(tree):
        with suppress(RecursionError):  # a long sum inside a call
            if isinstance(call, ast.Call) and WRITES.search(ast.unparse(call)):
                names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
                for part in (call, *(values[name] for name in names if name in values)):
                    found += [n.value for n in ast.walk(part) if isinstance(n, ast.Constant)]
    return {text for text in found if isinstance(text, str)}


def _about_import(
    name: str, node: ast.Import | ast.ImportFrom, sources: Mapping[str, bytes], course: Any
) -> str:
    """What is wrong with the import of a dotted name, or ""."""
    top = name.partition(".")[0]
    version = next((NEWER_NAMES[part] for part in _prefixes(name) if part in NEWER_NAMES), None)
    if version:
        return _about_newer(f"imports {name}", version)
    named = course.get("packages", kit.USUAL_PACKAGES)
    needed = (NEEDED_BY_TORCH[part] for part in _prefixes(name) if part in NEEDED_BY_TORCH)
    top = next(needed, top)
    if top in STANDARD:
        return ""
    own = (f"assignment/{top}.py", f"assignment/{top}/")
    if any(path == own[0] or path.startswith(own[1]) for path in sources):
        instead = f"from assignment import {top}"
        if isinstance(node, ast.ImportFrom):
            module, _, imported = name.rpartition(".")
            instead = f"from assignment.{module} import {imported}"
        return f"imports {top}, which the grader has as a part of assignment: write `{instead}`"
    # Most imports name a package of the course: to look at all that is installed takes 0.1 s.
    if top in map(_module_of, named) or top in importable(tuple(named)):
        return ""
    packages = ", ".join(map(name_of, named))
    return (
        f"imports {top}; the grader has only assignment/, the standard library, {packages}: delete "
        'the import, or move it below `if __name__ == "__main__":`'
    )


def _about_newer(what: str, version: tuple[int, int]) -> str:
    """That something came with a newer version of Python."""
    return (
        f"{what}, which came with Python {version[0]}.{version[1]}; "
        f"the grader may run Python {kit.OLDEST_PYTHON[0]}.{kit.OLDEST_PYTHON[1]}: write it without"
    )


@cache
def importable(packages: tuple[str, ...]) -> frozenset[str]:
    """The top-level modules of these packages and of those that they require, as installed here."""
    waiting, seen = list(packages), set[str]()
    while waiting:
        name = _normal(name_of(waiting.pop()))
        if name in seen:
            continue
        seen.add(name)
        with suppress(importlib.metadata.PackageNotFoundError):
            needed = importlib.metadata.distribution(name).requires or []
            waiting += [each for each in needed if "extra ==" not in each]
    names = {module for module, owners in importlib.metadata.packages_distributions().items()
             if seen.intersection(map(_normal, owners))}  # fmt: skip
    return frozenset(names | set(map(_module_of, seen)))


def _module_of(package: str) -> str:
    """The module that has the name of a package, as most packages have one."""
    return _normal(name_of(package)).replace("-", "_")


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


# --- reading a source -----------------------------------------------------------------------------


def _running(tree: ast.Module) -> Iterator[tuple[Any, bool]]:
    """The nodes that may run in the grader, and whether each certainly runs at the import.

    An import that is tried, or made for certain versions of Python only, is the author's care.
    """
    inside: list[Any]
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in reversed(tree.body)]
    while waiting:
        node, certain = waiting.pop()
        yield node, certain
        inside = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Try) and any(map(_catches_imports, node.handlers)):
            inside = [*node.handlers, *node.finalbody]
        elif isinstance(node, (ast.With, ast.AsyncWith)) and _suppresses_imports(node):
            inside = []
        elif isinstance(node, ast.If):
            never = never_holds(node.test)
            inside = node.orelse if never else inside
            if "version_info" in ast.dump(node.test):
                inside = []
            certain = certain and never
        at_once = getattr(node, "decorator_list", []) if isinstance(node, DEFERRED) else inside
        waiting += [(each, certain and each in at_once) for each in reversed(inside)]


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    caught = {node.id for node in ast.walk(handler.type or ast.Name("Exception"))
              if isinstance(node, ast.Name)}  # fmt: skip
    return bool(caught & CATCHES_IMPORTS)


def _suppresses_imports(statement: ast.With | ast.AsyncWith) -> bool:
    names = {node.id for item in statement.items for node in ast.walk(item.context_expr)
             if isinstance(node, ast.Name)}  # fmt: skip
    return bool(names & CATCHES_IMPORTS)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names that a statement imports; none for a relative import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [] if node.level else [f"{node.module}.{alias.name}" for alias in node.names]


def _imported_with(path: str, sources: Mapping[str, bytes]) -> list[str]:
    """The files of the assignment that are imported with this one: itself first."""
    waiting, found = [path], list[str]()
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.append(one)
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.parse(sources[one])
            for node, certain in _running(tree):
                if certain and isinstance(node, (ast.Import, ast.ImportFrom)):
                    waiting += _of_the_assignment(node, one, sources)
    return found


def _of_the_assignment(
    node: ast.Import | ast.ImportFrom, path: str, sources: Mapping[str, bytes]
) -> Iterator[str]:
    """The files of the assignment that an import statement in the file `path` imports."""
    names = _imported(node)
    if isinstance(node, ast.ImportFrom) and node.level:
        package = ".".join(path.split("/")[: -node.level])
        home = f"{package}.{node.module}" if node.module else package
        names = [home, *(f"{home}.{alias.name}" for alias in node.names)]
    for part in dict.fromkeys(part for name in names for part in _prefixes(name)):
        if (file := f"{part.replace('.', '/')}.py") in sources:
            yield file


def _prefixes(name: str) -> list[str]:
    """`a`, `a.b` and `a.b.c` for the name `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _file_of_this_machine(call: ast.Call) -> str:
    """The constant name of a file that a call reads; "" if it writes or computes the name."""
    constants = [a.value for a in call.args if isinstance(a, ast.Constant)]
    texts = [text for text in constants if isinstance(text, str)]
    if not call.args or not isinstance(call.args[0], ast.Constant) or not texts:
        return ""
    writes = len(texts) > 1 and set(texts[1]) & set("wax")
    return "" if writes else repr(printable(texts[0], 60))


def _needs_a_gpu(call: ast.Call) -> bool:
    """Whether a call makes a tensor on a GPU or moves one there, however little is known of it."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    places = [given.value for given in call.keywords if given.arg == "device"]
    places += call.args[:1] if method == "to" else []
    names = [str(place.value) for place in places if isinstance(place, ast.Constant)]
    return method == "cuda" or any(name.startswith("cuda") for name in names)


def _reads_beside(call: ast.Call, called: str) -> bool:
    """Whether a call reads a file that it finds by the place of the module."""
    named = call.func if called.endswith((".read_text", ".read_bytes")) else call
    if named is call and called not in READS:
        return False
    return any(isinstance(node, ast.Name) and node.id == "__file__" for node in ast.walk(named))


def _newer_syntax(source: bytes) -> tuple[int, str] | None:
    """The first line that the oldest Python cannot parse, and what to say of it."""
    oldest = kit.OLDEST_PYTHON
    says = f"the grader may run Python {oldest[0]}.{oldest[1]}, which cannot read it"
    try:
        ast.parse(source, feature_version=oldest)
    except SyntaxError as e:
        return e.lineno or 1, f"{e.msg}; {says}: write it without"
    if line := _newer_f_string(source):
        return line, (
            "an f-string has its own quotes, a backslash or a comment inside its braces, as "
            f"Python 3.12 allows; {says}: use other quotes, or a variable"
        )
    return None


def _newer_f_string(source: bytes) -> int:
    """The line of an f-string that Python before 3.12 cannot read; 0 if there is none."""
    begins, ends = (getattr(tokenize, f"FSTRING_{word}", -1) for word in ("START", "END"))
    middle, open_quotes = getattr(tokenize, "FSTRING_MIDDLE", -1), list[str]()
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        inside = bool(open_quotes) and not (token.type == middle and len(open_quotes) == 1)
        if token.type == ends:
            open_quotes.pop()
        elif inside and _is_newer(token, open_quotes):
            return token.start[0]
        if token.type == begins:
            open_quotes.append(token.string.lstrip("rRfFbB"))
    return 0


def _is_newer(token: tokenize.TokenInfo, open_quotes: Iterable[str]) -> bool:
    """Whether a token may not be inside the braces of f-strings with these quotes."""
    if token.type == tokenize.COMMENT:
        return True
    if token.type == tokenize.NL:
        return any(len(quote) == 1 for quote in open_quotes)
    return "\\" in token.string or any(quote in token.string for quote in open_quotes)
