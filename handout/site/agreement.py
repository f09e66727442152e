"""Check that chapters, stubs and problems.toml agree about each problem.

They must agree about its id, section, points, functions and command.
"""

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from grader.base.markdown_figures import without_marks
from grader.course.courses import Course, Problem

HANDOUT = Path(__file__).parents[1]
HEADING = re.compile(r"^(#+) (\d+)(?:\.(\d+))? (.+)$", re.MULTILINE)
BOX = re.compile(
    r"^:::\{admonition\} Problem `(\w+)` · (\d+) points?\n:class: problem\n\n(.*?)^:::$",
    re.MULTILINE | re.DOTALL,
)
CITED = re.compile(r"(?:Handout|see handout) §([\d.]+)(?: · `python -m assignment check (\w+)`)?")


def pages() -> dict[str, str]:
    """The handout's Markdown by file name, without the marks of its figures."""
    paths = sorted(HANDOUT.glob("*.md"))
    return {path.name: without_marks(path.read_text(encoding="utf-8")) for path in paths}


def stubs(course: Course) -> dict[str, str]:
    """The stubs' sources by module."""
    folder = course.root / "assignment"
    return {m: (folder / f"{m}.py").read_text(encoding="utf-8") for m in course.modules}


def complaints(course: Course, texts: Mapping[str, str], sources: Mapping[str, str]) -> list[str]:
    """Report where the chapters in `texts`, the stubs in `sources` and problems.toml disagree."""
    found: list[str] = []
    for number, module in enumerate(course.modules, 1):
        first = f"{number:02}_{module}.md"
        if first not in texts:
            found.append(
                f"{first} is missing: every module has a chapter, in the order of problems.toml"
            )
            continue
        # A long chapter has more pages, whose names follow the first one's in alphabetical order.
        pages = {page: texts[page] for page in sorted(texts) if page.startswith(first[:3])}
        problems = [problem for problem in course.problems if problem.module == module]
        found += _numbering(number, pages)
        found += _boxes(first, pages, problems)
        found += _citations(module, sources[module], problems)
    return found + _index(course, texts.get("index.md", ""))


def _numbering(chapter: int, pages: Mapping[str, str]) -> list[str]:
    """Complain if a chapter's pages or sections have wrong numbers."""
    sections = count(1)
    for page, text in pages.items():
        headings = HEADING.findall(text)
        for position, (_, first, second, title) in enumerate(headings):
            got = f"{first}.{second}" if second else first
            expected = f"{chapter}.{next(sections)}" if position else str(chapter)
            if got != expected:
                return [f"{page}: expected a heading numbered {expected}, got {got} ({title})"]
        if not headings:
            return [f"{page}: has no heading with a number"]
    return []


def _boxes(first: str, pages: Mapping[str, str], problems: list[Problem]) -> list[str]:
    """Complain unless each problem has one box, in its section, that agrees with problems.toml."""
    found = []
    boxes = {box[1]: (page, box) for page, text in pages.items() for box in BOX.finditer(text)}
    for name in boxes.keys() - {problem.id for problem in problems}:
        found.append(
            f"{boxes[name][0]}: has a box of `{name}`, which is not a problem of this chapter"
        )
    for problem in problems:
        if problem.id not in boxes:
            found.append(
                f"{first}: no box `:::{{admonition}} Problem `{problem.id}` · {_points(problem)}`"
            )
            continue
        page, box = boxes[problem.id]
        sections = [m for m in HEADING.finditer(pages[page], 0, box.start()) if m[3]]
        section = f"{sections[-1][2]}.{sections[-1][3]}" if sections else "none"
        if section != problem.section:
            named = f"{page}: `{problem.id}` is in section {section}"
            found.append(f"{named}, problems.toml says {problem.section}")
        if int(box[2]) != problem.points:
            named = f"{page}: `{problem.id}` is worth {box[2]}"
            found.append(f"{named}, problems.toml says {problem.points}")
        missing = [f"`{name}`" for name in problem.functions if f"`{name}`" not in box[3]]
        others = (f"`{problem.path}`", _command(problem), "what_tests_try.md")
        missing += [part for part in others if part not in box[3]]
        if missing:
            found.append(f"{page}: the box of `{problem.id}` does not name {', '.join(missing)}")
    return found


def _citations(module: str, source: str, problems: list[Problem]) -> list[str]:
    """Complain unless a stub cites the section of each problem of its module, and no others."""
    found = []
    of_section = {problem.section: problem.id for problem in problems}
    for match in CITED.finditer(source):
        section, name = match.groups()
        line = source.count("\n", 0, match.start()) + 1
        if section not in of_section or name not in (None, of_section[section]):
            found.append(
                f"assignment/{module}.py:{line} cites {match[0]!r}; problems.toml has {of_section}"
            )
    for problem in problems:
        if f"Handout §{problem.section} · {_command(problem)}" not in source:
            found.append(
                f"assignment/{module}.py: no docstring cites §{problem.section} for `{problem.id}`"
            )
    return found


def _command(problem: Problem) -> str:
    """The command that tests a problem, as every text names it."""
    return f"`python -m assignment check {problem.id}`"


def _index(course: Course, text: str) -> list[str]:
    """Complain unless the start page lists each problem with its section and points."""
    rows = map(listed, course.problems)
    return [f"index.md does not list {row}" for row in rows if row not in text]


def listed(problem: Problem) -> str:
    """A problem as the start page lists it."""
    return f"`{problem.id}` §{problem.section}, {_points(problem)}"


def _points(problem: Problem) -> str:
    return f"{problem.points} point{'s' if problem.points != 1 else ''}"
