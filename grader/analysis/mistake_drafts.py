"""Drafts of known mistakes, from failures that none of them explains.

Students whose answers to all failed tests of a problem are equal have probably made the same
mistake. A draft is the shortest of their programs, in the format of `solutions/wrong_edits.py`. It
has no comments and no docstrings. A person says what is wrong, adds it to the course, and reads it.
The grader runs known mistakes in its own process, and no list of names can tell whether a program
is harmless. So each draft has a line `unread:`, and as long as it has, only `grader validate` runs
it, in a sandbox.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from grader.analysis.class_statistics import Alike, costs
from grader.base.limited_reading import LimitedReader
from grader.classroom.class_records import Standing, State
from grader.classroom.standings import Class
from grader.course.courses import Problem
from grader.report.shared_wording import clean, in_points
from grader.solutions import wrong_edits
from grader.solutions.fragments import bound, is_docstring
from grader.solutions.wrong_edits import Edit
from kit.safe_text import counted

FEWEST = 2  # students with equal answers
MAX_SOURCE = 400_000  # bytes of a module that is read
MAX_PROGRAM = 20_000  # characters of a draft, which a person has to read
SHARE = 1 / 3  # a mistake that costs a larger share of its problem needs a reason


@dataclass(frozen=True)
class EqualAnswers:
    problem: Problem
    alike: Alike  # their answers
    points: float  # the points that it cost each of them
    students: int  # how many they are
    programs: list[str] = field(default_factory=list)


def groups(whole: Class, *, top: int) -> list[EqualAnswers]:
    """The largest groups of students whose failures are equal and unexplained, largest first."""
    found: dict[Alike, EqualAnswers] = {}
    members: dict[Alike, list[Standing]] = {}
    for standing in whole.standings():
        result = whole.result(standing) if standing.state is State.GRADED else None
        for problem in result.problems if result else []:
            for alike, cost in costs(problem).items():
                if alike.mistake:
                    continue
                kind = whole.course.problem(problem.id)
                members.setdefault(alike, []).append(standing)
                found[alike] = EqualAnswers(kind, alike, cost, len(members[alike]))
    large = [group for group in found.values() if group.students >= FEWEST]
    large.sort(key=lambda one: (-one.students, -one.points, one.problem.id))
    with LimitedReader(_program, kind=str) as reader:
        for group in large[:top]:
            path, names = group.problem.path, tuple(group.problem.functions)
            texts = {whole.sources(one).get(path, b"") for one in members[group.alike]}
            short = sorted(text for text in texts if len(text) <= MAX_SOURCE)
            programs = [reader.found_in((text.decode("utf-8", "replace"), names)) for text in short]
            usable = [one for one in programs if isinstance(one, str) and one]
            group.programs.extend(sorted(usable, key=lambda text: (len(text), text)))
    return large[:top]


def written(problem: Problem, found: list[EqualAnswers]) -> str:
    """The drafts of one problem, in the format of `solutions/wrong_edits.py`."""
    head = (
        f"# Drafts of known mistakes of {problem.id}: students gave these equal wrong answers.\n"
        f"# Say what is wrong, append it to tests/hidden/{problem.id}/wrong.edits, and run\n"
        f"# `grader validate --only {problem.id} --draft`. Then read every line: without\n"
        "# `unread:`, the grader runs this code in its own process, with all your rights.\n"
    )
    return head + "".join(_entry(n, group) for n, group in enumerate(found, 1))


def _entry(place: int, group: EqualAnswers) -> str:
    answers = [f"# {clean(f'{one.test}: {one.said}', 100)}\n" for one in group.alike.answers[:5]]
    keys = {"unread": "a student wrote this; remove this line once you have read the code"}
    if group.points > SHARE * group.problem.points:
        keys["price"] = "TODO: why it costs more than a third of the problem"
    return (
        f"\n# {counted(group.students, 'student')}, {in_points(group.points)} each\n"
        + "".join(answers)
        + f"[draft_{place}] TODO: what is wrong, in one line\n"
        + "".join(f"{key}: {said}\n" for key, said in keys.items())
        + _as_code(group.programs[0])
    )


def _as_code(program: str) -> str:
    return "".join(f"+ {line}\n" if line else "+\n" for line in program.splitlines())


def _program(given: tuple[str, Sequence[str]]) -> str:
    return program_of(*given)


def program_of(text: str, functions: Sequence[str]) -> str:
    """The definitions of a problem in a student's module; empty if they cannot be a draft.

    They are the problem's functions, and whatever they use of the module. What is read back from
    the draft has to be this program and nothing else.
    """
    try:
        tree = ast.parse(text)
        nodes = _used(tree, functions)
        program = "\n\n".join(ast.unparse(_bare(node)) for node in nodes) + "\n"
        is_readable = program.replace("\n", "").isprintable()  # else a line may look reordered
        if not nodes or len(program) > MAX_PROGRAM or not is_readable:
            return ""
        draft = f"[draft] -\n{_as_code(program)}"
        draft.encode()
        (read,) = wrong_edits.entries(draft)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return program if isinstance(read, Edit) and read.source == program else ""


def _used(tree: ast.Module, functions: Sequence[str]) -> list[ast.stmt]:
    """The statements that bind these functions, and what they use, in the order of the module."""
    nodes = {name: node for node in tree.body for name in bound(node)}
    waiting, kept = [name for name in functions if name in nodes], set()
    while waiting:
        node = nodes.pop(waiting.pop(), None)
        if node is not None and node not in kept:
            kept.add(node)
            waiting += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    return [node for node in tree.body if node in kept]


def _bare(statement: ast.stmt) -> ast.stmt:
    """A statement without texts that compute nothing, such as docstrings; it has no comments."""
    for node in ast.walk(statement):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not is_docstring(one)] or [ast.Pass()]  # type: ignore[attr-defined]
    return statement
