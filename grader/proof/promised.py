"""What a stub promises: the classes of inputs that its annotations allow, and its sentences.

Both come from the reference, whose signatures and docstrings are those of the stub. A problem's
file in solutions/promises says what follows from them:

    [not_promised]
    "storage_bytes(x): infinite" = "the values are not read"

    [claims.tensor_bytes]
    "The bytes of all elements of x." = ["whole_storage", "elements_only"]

A class of inputs is named as above, or by a pattern with `*`. Every other class must be tested. A
claim is a sentence of a docstring, word for word; its value lists wrong solutions that contradict
it, at least two, or says why there are none. These are names of known mistakes, or of classes of
inputs.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from grader.base.errors import CourseFault
from grader.course.courses import Problem
from grader.proof import inputs
from grader.solutions.mistakes import Mistake

LEAST_WRONG = 2  # solutions that contradict a claim
# In the strings of jaxtyping: the dtypes that each kind of array allows.
DTYPES = {
    "Float": inputs.FLOATS,
    "Shaped": (*inputs.FLOATS, *inputs.OTHERS),
    "Tensor": (*inputs.FLOATS, *inputs.OTHERS),
}
LAYOUTS = ("not contiguous", "with an offset", "expanded")
VALUES = ("zeros", "huge", "tiny", "infinite")
SECTION = re.compile(r"(Args|Returns|Raises|Example|Attributes):$")
ENTRY = re.compile(r"`?\w+`?(, `?\w+`?)*:( |$)")
ERROR = re.compile(r"\b(?:\w*Error|\w*Exception)\b")
NUMBER_IN_LIST = re.compile(r"\d+\.")
LAST_LINE = re.compile(r"Handout §")


@dataclass(frozen=True)
class InputClass:
    """One class of inputs of one function."""

    function: str
    parameter: str
    which: str

    @property
    def name(self) -> str:
        """As in `tensor_bytes(x): empty`."""
        return f"{self.function}({self.parameter}): {self.which}"


@dataclass(frozen=True)
class Promises:
    """What a problem's file says."""

    claims: dict[str, dict[str, list[str] | str]] = field(default_factory=dict)
    not_promised: dict[str, str] = field(default_factory=dict)

    def reason(self, name: str) -> str:
        """Why a class of inputs is not promised; empty if it is."""
        listed = self.not_promised.items()
        return next((why for pattern, why in listed if _matches(name, pattern)), "")


def load(folder: Path, problem: str) -> Promises | None:
    """A problem's file; None if the course has none.

    Raises:
        CourseFault: The file is wrong.
    """
    path = folder / f"{problem}.toml"
    if not path.is_file():
        return None
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as e:
        raise CourseFault(f"{path.name}: {e}") from None
    if unknown := tree.keys() - {"claims", "not_promised"}:
        raise CourseFault(f"{path.name}: expected claims and not_promised, got {min(unknown)}")
    claims = {
        function: {" ".join(sentence.split()): wrong for sentence, wrong in listed.items()}
        for function, listed in tree.get("claims", {}).items()
    }
    return Promises(claims, tree.get("not_promised", {}))


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern.replace("[", "[[]"))


# --- classes of inputs ----------------------------------------------------------------------------


def classes(problem: Problem, reference: str) -> Iterator[InputClass]:
    """Every class of inputs that the annotations of a problem's functions allow."""
    tree = ast.parse(reference)
    defined = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    fields = {name: n for name, n in defined.items() if isinstance(n, ast.ClassDef)}
    for name in problem.functions:
        node = defined[name]
        if isinstance(node, ast.FunctionDef):
            yield from _of_function(name, node, fields)
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name != "__torch_dispatch__":
                yield from _of_function(f"{name}.{method.name}", method, fields)


def _of_function(
    name: str, node: ast.FunctionDef, fields: dict[str, ast.ClassDef]
) -> Iterator[InputClass]:
    parameters = [*node.args.args, *([node.args.vararg] if node.args.vararg else [])]
    parameters = [p for p in [*parameters, *node.args.kwonlyargs] if p.arg not in ("self", "ctx")]
    optional = {p.arg for p in node.args.args[len(node.args.args) - len(node.args.defaults) :]}
    optional |= {p.arg for p, default in _keywords(node) if default}
    tensors = 0
    for p in parameters:
        annotation = ast.unparse(p.annotation) if p.annotation else ""
        tensors += "Tensor" in annotation and "Callable" not in annotation
        given = [inputs.LEFT_OUT] if p.arg in optional else []
        for which in [*given, *_of_annotation(annotation)]:
            yield InputClass(name, p.arg, which)
        if node_of := fields.get(annotation.rpartition(".")[2]):
            for line in node_of.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    for which in _of_annotation(ast.unparse(line.annotation)):
                        yield InputClass(name, f"{p.arg}.{line.target.id}", which)
    method = name.partition(".")[2]
    if method == "step":
        for kind in ("parameter", "gradient"):
            for which in _of_annotation('Float[Tensor, "..."]'):
                yield InputClass(name, kind, which)
        yield InputClass(name, "self", "with several groups")
    yield from (InputClass(name, "", which) for which in _of_call(node, method, tensors))


def _of_call(node: ast.FunctionDef, method: str, tensors: int) -> Iterator[str]:
    """The classes of calls as a whole.

    Args:
        node: The function.
        method: The name of the method; empty for a function.
        tensors: The number of arguments that are or contain tensors.
    """
    texts = [ast.unparse(a.annotation) for a in node.args.args if a.annotation]
    if tensors and method in ("", "forward"):
        yield from inputs.CALLS
    if tensors > 1 or any("Iterable[T" in text for text in texts):
        yield inputs.SHARED
    if method in ("forward", "step") and node.args.args[0].arg == "self":
        yield inputs.AGAIN


def _keywords(node: ast.FunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    return zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)


def _of_annotation(text: str) -> list[str]:
    """The classes of values that an annotation allows."""
    if text.startswith("Callable") or "dtype" in text.lower():
        return []
    if "dict[" in text:  # an optimizer's params: parameters, or groups of them
        return ["a list", "a generator"]
    if "Module" in text and "Sequence" not in text:
        return list(inputs.MODULES)
    if "Optimizer" in text:
        return list(inputs.OPTIMIZERS)
    if "PathLike" in text:
        return ["a str", "a Path", *(["a file"] if "IO" in text else [])]
    if text.startswith(("Iterable", "Sequence")):
        return _of_sequence(text)
    if "Tensor" in text or "ndarray" in text:
        return _of_tensor(text)
    found = ["None", "given"] if "None" in text else []
    if text.startswith("bool"):
        return [*found, "True", "False"]
    if text.startswith("int"):
        return [*found, "0", "1", "2**53 or more"]
    if text.startswith("float"):
        return [*found, "0", "1", "an int", "tiny", "2**53 or more", "infinite"]
    return found


def _of_sequence(text: str) -> list[str]:
    sizes = ["empty", "of one", "of many"]
    kinds = ["a list", "a tuple", *(["a generator"] if text.startswith("Iterable") else [])]
    if "int" in text:
        return [*sizes, *kinds, "with a 0", "with a 1", "2**53 or more"]
    if "Module" in text:
        return [*sizes, *kinds, "that repeats one"]
    own = [*sizes, *kinds, "that repeats one"]
    return own + [which for which in _of_tensor("Float[Tensor, '...']") if which not in own]


def _of_tensor(text: str) -> list[str]:
    kind, _, rest = text.partition("[")
    kind = kind if kind in DTYPES else "Tensor" if text.startswith("Tensor") else ""
    axes = re.findall(r"['\"](.*)['\"]", rest)
    dims = len(re.sub(r"\([^)]*\)", "x", axes[0]).split()) if axes else 0
    ranks = ["0-d", "1-d", "2-d", "3-d or more"]
    if axes and "..." in axes[0]:
        ranks = ranks[dims - 1 :] if dims > 1 else ranks
    elif axes:
        ranks = []
    if "ndarray" in text:
        return list(inputs.ARRAYS)
    values = VALUES if kind in ("Float", "Tensor") else ("zeros",)
    grad = ["requires grad"] if kind in ("Float", "Tensor") else []
    return [*ranks, "empty", "a size of 1", *LAYOUTS, *grad, *values, *DTYPES.get(kind, ())]


# --- claims ---------------------------------------------------------------------------------------


def sentences(problem: Problem, reference: str) -> dict[str, list[str]]:
    """The sentences of each function's docstring that claim something, by the function's name."""
    found: dict[str, list[str]] = {}
    for node in ast.parse(reference).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in problem.functions:
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
            for part in [node, *(methods if isinstance(node, ast.ClassDef) else [])]:
                name = node.name if part is node else f"{node.name}.{part.name}"
                found[name] = list(dict.fromkeys(_claims(ast.get_docstring(part) or "")))
    return {name: listed for name, listed in found.items() if listed}


def _claims(docstring: str) -> Iterator[str]:
    """The sentences of a docstring, without its examples, headings and last line.

    Public tests check the examples.
    """
    section, paragraph = "", list[str]()
    for line in [*docstring.splitlines(), ""]:
        text = line.strip()
        heading = SECTION.match(text) if line == text else None
        starts = not text or heading or LAST_LINE.match(text)
        if starts or (section and ENTRY.match(text)):
            if section != "Example":
                yield from _split(" ".join(paragraph))
            paragraph = []
        if heading:
            section = heading.group(1)
        elif text and not LAST_LINE.match(text):
            paragraph.append(
                ENTRY.sub("", text, count=1).strip() if section and ENTRY.match(text) else text
            )


def _split(text: str) -> list[str]:
    text = " ".join(text.split())
    parts = (s.strip() for s in re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", text))
    return [s for s in parts if s and not NUMBER_IN_LIST.fullmatch(s)]


def raised_by(reference: str, name: str) -> set[str]:
    """The exceptions that a definition's docstring names; those of a class in any of its methods.

    Args:
        reference: The source of the module.
        name: The definition, such as "train" or "MLP".
    """
    found: set[str] = set()
    for node in ast.parse(reference).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name.split(".")[0]:
            parts = [n for n in ast.walk(node) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
            for part in parts:
                found |= set(ERROR.findall(ast.get_docstring(part) or ""))
    return found


def unknown_sentences(problem: Problem, reference: str, known: Iterable[Mistake]) -> Iterator[str]:
    """The sentences that known mistakes contradict and no docstring has."""
    said = sentences(problem, reference)
    for mistake in known:
        for one in mistake.contradicts:
            where = f"mistakes/{problem.id}.edits:{mistake.line}: {mistake.name}: contradicts"
            if one.of not in said:
                yield f"{where}: expected one of {', '.join(said)}; got {one.of}"
            elif one.number > len(said[one.of]):
                yield (
                    f"{where}: expected one of the {len(said[one.of])} sentences of {one.of}; "
                    f"got {one.number}"
                )


def complaints(
    problem: Problem, reference: str, promises: Promises, names: set[str]
) -> Iterator[str]:
    """What is missing from a problem's file, and what in it matches nothing.

    Args:
        problem: The problem.
        reference: The source of its reference module.
        promises: The file.
        names: The names of the problem's known mistakes and of its classes of inputs.
    """
    where = f"promises/{problem.id}.toml"
    said = sentences(problem, reference)
    for function, listed in said.items():
        for sentence in listed:
            wrong = promises.claims.get(function, {}).get(sentence)
            if wrong is None:
                yield f"{where}: no test is known for this claim of {function}: {sentence}"
            elif isinstance(wrong, list):
                if unknown := set(wrong) - names:
                    yield f"{where}: {function}: no wrong solution is called {min(unknown)}"
                elif len(set(wrong)) < LEAST_WRONG:
                    yield (
                        f"{where}: {function}: expected {LEAST_WRONG} wrong solutions "
                        f"or a reason, got {len(wrong)}: {sentence}"
                    )
    for function, claims in promises.claims.items():
        for sentence in claims.keys() - set(said.get(function, [])):
            if not NUMBER_IN_LIST.fullmatch(sentence):
                yield f"{where}: the docstring of {function} does not say: {sentence}"
    for pattern in promises.not_promised:
        if not any(_matches(name, pattern) for name in names):
            yield f"{where}: no class of inputs is called {pattern}"
