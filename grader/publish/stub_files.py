"""Generate assignment/ from the reference solutions by removing the marked regions.

A region starts at `# BEGIN SOLUTION(<problem id>)` and stops at `# END SOLUTION`. A region inside a
function is replaced by a TODO with the solution's number of lines, and by a raise. A region at the
left margin contains helpers of the solution: it is removed, and the TODOs of its problem mention
its number of lines.
"""

import ast
import difflib
import re
from pathlib import Path

from grader.base import files
from grader.base.errors import CourseFault
from grader.course import courses
from grader.course.courses import Course, sources_in
from grader.solutions.fragments import BEGIN, END, MARK
from kit.safe_text import counted


def write(course: Course) -> list[Path]:
    """Generate every stub that is missing or out of date; return the paths of the new stubs."""
    changed = drifted(course)
    with files.together():
        for path in changed:
            files.make_folder(path.parent)
            files.write(path, _stub_of(course, path).encode())
    return changed


def drifted(course: Course) -> list[Path]:
    """The stubs that are missing, or that differ from the stub generated from their reference.

    A module of the reference that belongs to no problem is given to students as it is.
    """
    modules = dict.fromkeys([p.path for p in course.problems] + [*sources_in(course.reference)])
    paths = [course.root / path for path in modules]
    return [
        p for p in paths if not p.exists() or p.read_text(encoding="utf-8") != _stub_of(course, p)
    ]


def _stub_of(course: Course, path: Path) -> str:
    """The text of the stub at this path."""
    reference = courses.text_of(course.reference / path.relative_to(course.assignment))
    try:
        return stub(reference, course)
    except CourseFault as e:
        where = course.reference / path.relative_to(course.assignment)
        raise CourseFault(f"{where}, {e}") from None


def stub(reference: str, course: Course) -> str:
    """The stub for a reference module.

    Raises:
        CourseFault: A region is not closed or names an unknown problem, or a mark is malformed;
            the text begins with the line.
    """
    lines: list[str] = []
    region: list[str] | None = None
    helper_lines = _lines_of_helpers(reference)
    of_classes = _lines_of_class_bodies(reference)
    for number, line in enumerate(reference.splitlines(), 1):
        if region is None and (begin := BEGIN.fullmatch(line)):
            indent, problem_id, region, first = begin[1], begin[2], [], number
            _check_problem(problem_id, number, course)
        elif region is not None and END.fullmatch(line):
            if indent and first not in of_classes:
                lines += _replacement(
                    indent, problem_id, region, course, helper_lines.get(problem_id, 0)
                )
            region = None
        elif region is not None and BEGIN.fullmatch(line):
            raise CourseFault(
                f"line {number}: a region begins before the region of {problem_id}, which begins "
                f"in line {first}, has its END SOLUTION"
            )
        # A malformed mark would leave a solution in the stub, or remove later lines from it.
        elif MARK.search(line):
            raise CourseFault(f"line {number}: a misplaced or malformed mark: {line.strip()}")
        elif region is not None:
            region.append(line)
        else:
            lines.append(line)
    if region is not None:
        raise CourseFault(f"line {first}: the region of {problem_id} has no END SOLUTION")
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).rstrip() + "\n"


def _check_problem(problem_id: str, number: int, course: Course) -> None:
    """Refuse a mark that names no problem."""
    ids = [problem.id for problem in course.problems]
    if problem_id not in ids:
        close = difflib.get_close_matches(problem_id, ids, 1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise CourseFault(
            f"line {number}: a solution is marked as {problem_id}, which is not a problem{meant}"
        )


def _lines_of_class_bodies(reference: str) -> set[int]:
    """The lines of classes outside their functions.

    A region there holds whole methods. Like a region at the left margin it is left out: a raise in
    its place would end the import of the stub.
    """
    try:
        tree = ast.parse(reference)
    except SyntaxError:
        return set()  # whoever reads the reference as Python says so
    of_classes: set[int] = set()
    of_functions: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            into = of_classes if isinstance(node, ast.ClassDef) else of_functions
            into |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return of_classes - of_functions


def _lines_of_helpers(reference: str) -> dict[str, int]:
    """The number of lines of each problem's solution outside its functions."""
    found: dict[str, int] = {}
    for region in re.findall(
        r"^# BEGIN SOLUTION\((\w+)\)\n(.*?)^# END SOLUTION", reference, re.MULTILINE | re.DOTALL
    ):
        found[region[0]] = found.get(region[0], 0) + _count(region[1].splitlines())
    return found


def _count(region: list[str]) -> int:
    """The number of lines of code."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in region)


def _replacement(
    indent: str, problem_id: str, region: list[str], course: Course, helper_lines: int
) -> list[str]:
    section = course.problem(problem_id).section
    see = f"see handout §{section}" if section else "not written yet"
    count = _count(region)
    helpers = f", plus about {helper_lines} for the problem's helpers" if helper_lines >= 10 else ""
    return [
        f"{indent}# TODO({problem_id}): about {counted(count, 'line')}{helpers}.",
        f'{indent}raise NotImplementedError("{problem_id}: {see}")',
    ]
