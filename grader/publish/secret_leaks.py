"""Keep secrets out of a bundle: the staff's files, and statements of solutions, mistakes and tests.

A secret statement is found even if its line breaks, spaces or quotes differ. Statements that a
public file shares with a secret one by coincidence are listed by hand in bundle/shared_lines.txt.
"""

import ast
import gzip
import html
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from grader.base.errors import CourseFault
from grader.course import courses
from grader.course.courses import Course, Problem
from grader.solutions import known_mistakes
from grader.solutions.fragments import MARK, lines_of

# Squeezed statements with fewer characters (`return loss`, `else:`) occur in every program, and so
# do those of TELLS_NOTHING.
SHORTEST = 14
# The same limit for one line of a longer statement, such as a row of a table.
SHORTEST_PART = 30
TELLS_NOTHING = re.compile(
    r"import|from\S+import|class[A-Z]|(async)?def\w|@(\w|\.)+(\(\))?$|#|\)"
    r"|(for\w+in\w+|except\w+):$|super\(\)\.__init__\(\)$"
)
HAVE_STATEMENTS = ("body", "handlers", "orelse", "finalbody", "cases")
MOST_LINES = 30  # of one statement
PROMPT = re.compile(r"^\s*(>>>|\.\.\.) ?")
OF_THE_STAFF = re.compile(
    r"(grader|solutions|tests/grader)/"
    r"|(.*/)?(hidden|promises|course_files|__pycache__)/|(.*/)?mutants\.toml$|.*\.(edits|pyc)$"
)


@dataclass(frozen=True)
class Leak:
    """A secret statement in a file of the bundle."""

    path: str  # the file
    number: int  # the number of the statement's first line in this file
    line: str  # the text of that line
    secret: str  # where the statement comes from

    def __str__(self) -> str:
        return f"{self.path}:{self.number} is a line of {self.secret}: {self.line}"


def squeezed(code: str) -> str:
    """Remove the parts of code that are only style: blanks, line ends, quotes, trailing commas."""
    return _without_trailing_commas(_without_blanks_and_quotes(code))


def _without_blanks_and_quotes(code: str) -> str:
    return "".join(code.split()).replace("'", "").replace('"', "")


def _without_trailing_commas(code: str) -> str:
    return code.replace(",)", ")").replace(",]", "]").replace(",}", "}")


def secrets(course: Course) -> dict[str, str]:
    """Every revealing statement that students must not see, squeezed, and where it comes from."""
    found: dict[str, str] = {}
    for path in sorted(course.reference.rglob("*.py")):
        source = courses.text_of(path)
        inside = lines_of(source)
        told = (code for number, code in _numbered(source) if number in inside)
        found |= dict.fromkeys(told, f"the solution of {path.stem}")
    for path in sorted(course.hidden.rglob("*.py")):
        kind = "variant" if path.name == "right.py" else "hidden test"
        where = f"the {kind} {path.relative_to(course.hidden).with_suffix('').as_posix()}"
        for code in _of(courses.text_of(path)):
            found.setdefault(code, where)
    for problem in course.problems:
        for code, name in _of_mistakes(course, problem):
            found.setdefault(code, f"the wrong solution {problem.id}/{name}")
    listed = course.bundle / "shared_lines.txt"
    shared = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    for line in shared:
        found.pop(squeezed(line), None)
    return found


def _of_mistakes(course: Course, problem: Problem) -> Iterator[tuple[str, str]]:
    """The statements that mistakes add, and the mistakes' descriptions, each with its name."""
    reference = course.reference_of(problem)
    given = _of(reference)
    for mistake in known_mistakes.load(course.hidden, problem.id):
        try:
            wrong = _of(mistake.applied_to(reference)) - given
        except (CourseFault, SyntaxError):
            continue  # `grader validate` names a mistake that does not fit or is not Python
        described = map(squeezed, [mistake.says, mistake.hint or ""])
        yield from ((code, mistake.name) for code in [*wrong, *filter(_tells, described)])


def of_the_staff(files: dict[str, bytes]) -> Iterator[str]:
    """What must not be in a bundle, whatever it says: the staff's files, and marks of solutions."""
    for path, content in files.items():
        if OF_THE_STAFF.match(path):
            yield f"{path} is for the staff only"
        if mark := MARK.search(_unpacked(path, content).decode(errors="replace")):
            yield f"{path} contains the mark of a solution: {mark[0]}"


def leaks(files: dict[str, bytes], secret: dict[str, str]) -> list[Leak]:
    """Find every secret statement in these files."""
    found = []
    for path, content in files.items():
        lines = _text(path, content).splitlines()
        code = [PROMPT.sub("", line) for line in lines]
        bare = [_without_blanks_and_quotes(line) for line in code]
        opened = [sum(map(line.count, "([{")) - sum(map(line.count, ")]}")) for line in code]
        for i in range(len(lines)):
            if told := next((t for t in _beginning_at(i, bare, opened) if t in secret), None):
                found.append(Leak(path, i + 1, lines[i].strip(), secret[told]))
    return found


def _beginning_at(i: int, bare: list[str], opened: list[int]) -> Iterator[str]:
    """Yield the line with this index, squeezed; then add further lines while a bracket is open.

    `bare` has the lines without blanks and quotes, `opened` how many brackets each leaves open.
    """
    code, depth = "", 0
    for line, brackets in zip(bare[i : i + MOST_LINES], opened[i : i + MOST_LINES], strict=True):
        code += line
        yield _without_trailing_commas(code)
        depth += brackets
        if depth <= 0:
            return


def _unpacked(path: str, content: bytes) -> bytes:
    """What a file holds, or a compressed one hides."""
    with suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(content) if path.endswith(".gz") else content
    return content


def _text(path: str, content: bytes) -> str:
    """The text of a file; for an HTML page, the text without tags; for a notebook, its strings."""
    text = _unpacked(path, content).decode("utf-8", errors="replace")
    if path.endswith(".ipynb"):
        with suppress(ValueError):  # it is no notebook
            return "\n".join(_strings(json.loads(text)))
    return html.unescape(re.sub(r"<[^>]*>", "", text)) if path.endswith(".html") else text


def _strings(tree: Any) -> Iterator[str]:
    """The texts in JSON, in order, such as the lines of a notebook's cells."""
    if isinstance(tree, str):
        yield tree.removesuffix("\n")
    elif isinstance(tree, dict | list):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _strings(branch)


def _of(source: str) -> set[str]:
    """The revealing statements of a Python source."""
    return {code for _, code in _numbered(source)}


def _numbered(source: str) -> Iterator[tuple[int, str]]:
    """The revealing statements of a Python source, each with the number of its first line."""
    first, blocks = 1, source.split("\n\n\n")
    try:
        listed = [_statements(block) for block in blocks]
    except SyntaxError:  # a text has two empty lines in it
        listed, blocks = [_statements(source)], [source]
    for statements, block in zip(listed, blocks, strict=True):
        yield from ((first + n, code) for n, code in statements)
        first += block.count("\n") + 3


@cache  # because a problem's known mistakes have most definitions in common
def _statements(block: str) -> list[tuple[int, str]]:
    """The revealing statements of some definitions, with the offset of each one's first line."""
    found: list[tuple[int, str]] = []
    lines = [re.sub(r"  # .*", "", line) for line in block.splitlines()]
    todo: list[ast.AST] = [ast.parse(block)]
    for node in todo:  # the expressions are left out, which takes a fifth of the time of ast.walk
        todo += (n for name in HAVE_STATEMENTS for n in getattr(node, name, []))
        for first, last in _spans(node):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if first == last or not is_text:
                found.append((first, squeezed("".join(lines[first : last + 1]))))
            if first != last:
                parts = [(n, squeezed(lines[n])) for n in range(first, last + 1)]
                shortest = SHORTEST if is_text else SHORTEST_PART
                found += [(n, part) for n, part in parts if len(part) >= shortest]
    return [(n, code) for n, code in found if _tells(code)]


def _spans(node: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield the first and last line, from 0, of each decorator and of a statement's head."""
    for decorator in getattr(node, "decorator_list", []):
        yield decorator.lineno - 1, decorator.end_lineno - 1
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        first, last = node.lineno, node.end_lineno or node.lineno
        if body := getattr(node, "body", None):
            begin = next(iter(getattr(body[0], "decorator_list", ())), body[0])
            last = max(first, begin.lineno - 1)
        yield first - 1, last - 1


def _tells(code: str) -> bool:
    """Whether squeezed code could reveal a solution; short statements and heads could not."""
    return (
        len(code) >= SHORTEST
        and not TELLS_NOTHING.match(code)
        and re.search(r"[A-Za-z]", code) is not None
    )
