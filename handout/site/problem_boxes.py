"""What the Markdown says about problems, from problems.toml.

`{problem} id` is a problem's box, with what only the page says about it. `{problems}`, in a table's
row with the file of a module, lists the problems of that module.
"""

import re
from functools import cache
from pathlib import Path

from grader.course import courses
from grader.course.courses import Course, Problem
from kit.safe_text import counted

MARK = re.compile(r"^```\{problem\} (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^(\|.*`(\w+)\.py`.*)\{problems\}", re.MULTILINE)
BOX = """:::{{admonition}} Problem `{id}` · {points}
:class: problem

Hand in {functions} in `{path}`. {says}Test {them} with
{command} ([what tests try](what_tests_try.md)).
:::"""


@cache
def course() -> Course:
    """The course of this handout."""
    return courses.load(Path(__file__).parents[2])


def with_problems(markdown: str) -> str:
    """Fill in the boxes and rows of a page; Sphinx names a box of an unknown problem."""
    problems = {problem.id: problem for problem in course().problems}
    text = MARK.sub(
        lambda mark: _box(problems[mark[1]], mark[2]) if mark[1] in problems else mark[0], markdown
    )
    return ROW.sub(lambda row: row[1] + _listed(row[2]), text)


def _listed(module: str) -> str:
    return " · ".join(
        f"`{problem.id}` §{problem.section}, {counted(problem.points, 'point')}"
        for problem in course().problems
        if problem.module == module
    )


def _box(problem: Problem, says: str) -> str:
    *others, last = [f"`{name}`" for name in problem.functions]
    return BOX.format(
        id=problem.id,
        points=counted(problem.points, "point"),
        functions=f"{', '.join(others)} and {last}" if others else last,
        path=problem.path,
        says=f"{says.strip()} ".lstrip(),
        them="them" if others else "it",
        command=command(problem),
    )


def command(problem: Problem) -> str:
    """The command that tests a problem, as every text names it."""
    return f"`python -m assignment check {problem.id}`"
