"""Check that chapters, stubs and problems.toml agree about each problem.

They must agree about its id, section and points.
"""

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from grader.base.markdown_figures import without_marks
from grader.course.courses import Course, Problem
from handout.site.problem_boxes import command, with_problems

HANDOUT = Path(__file__).parents[1]
HEADING = re.compile(r"^(#+) (\d+)(?:\.(\d+))? (.+)$", re.MULTILINE)
BOX = re.compile(r"^:::\{admonition\} Problem `(\w+)`", re.MULTILINE)
CITED = re.compile(r"(?:Handout|see handout) §([\d.]+)(?: · `python -m assignment check (\w+)`)?")


def pages() -> dict[str, str]:
    """The handout's Markdown by file name: problems have their boxes, and figures no marks."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(HANDOUT.glob("*.md"))}
    return {name: with_problems(without_marks(text)) for name, text in texts.items()}


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
    return found


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
    """Complain unless each problem of the chapter has a box in its section."""
    found = []
    boxes = {box[1]: (page, box) for page, text in pages.items() for box in BOX.finditer(text)}
    for problem in problems:
        if problem.id not in boxes:
            found.append(f"{first}: no box ```{{problem}} {problem.id}")
            continue
        page, box = boxes[problem.id]
        sections = [m for m in HEADING.finditer(pages[page], 0, box.start()) if m[3]]
        section = f"{sections[-1][2]}.{sections[-1][3]}" if sections else "none"
        if section != problem.section:
            named = f"{page}: `{problem.id}` is in section {section}"
            found.append(f"{named}, problems.toml says {problem.section}")
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
        if f"Handout §{problem.section} · {command(problem)}" not in source:
            found.append(
                f"assignment/{module}.py: no docstring cites §{problem.section} for `{problem.id}`"
            )
    return found
