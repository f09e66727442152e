"""The page of stubs: the signature and docstring of everything that the problems ask for.

Names in the text link to it. The page shows no body of a function, so it cannot show a solution.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from html import escape

from grader.course.courses import Course
from handout.site import agreement

Definition = ast.FunctionDef | ast.ClassDef


def anchor(name: str) -> str:
    """The id of a stub on the page."""
    return f"stub-{name}"


def modules_of(course: Course) -> dict[str, str]:
    """The module of each name that a problem asks for."""
    return {name: problem.module for problem in course.problems for name in problem.functions}


def linked(course: Course, page: str) -> set[str]:
    """The names that link to their stubs on a page.

    A single word, such as `checkpoint`, means the function only in the function's own chapter.
    """
    number = page.partition("_")[0]
    own = course.modules[int(number) - 1] if number.isdigit() else None
    return {name for name, module in modules_of(course).items() if module == own or "_" in name}


def stub(source: str, name: str) -> list[tuple[str, str]]:
    """The signature and the docstring of a definition, and then those of a class's methods.

    Raises:
        KeyError: The source does not define the name.
    """
    found = {one.name: one for one in ast.parse(source).body if isinstance(one, Definition)}
    lines = source.splitlines()
    return [
        (_signature(lines, one), ast.get_docstring(one) or "") for one in _documented(found[name])
    ]


def _documented(definition: Definition) -> Iterator[Definition]:
    yield definition
    if isinstance(definition, ast.ClassDef):
        yield from (part for part in definition.body if isinstance(part, ast.FunctionDef))


def _signature(lines: list[str], definition: Definition) -> str:
    start = min([definition.lineno, *(d.lineno for d in definition.decorator_list)]) - 1
    shown = lines[start : definition.body[0].lineno - 1]
    # Above a body without docstring may be a comment, such as a TODO.
    return textwrap.dedent("\n".join(line for line in shown if line.lstrip()[:1] != "#"))


def as_html(docstring: str) -> str:
    """A docstring as paragraphs, lists and lines of formulas."""
    return "".join(_block(block.splitlines()) for block in docstring.split("\n\n") if block)


def _block(lines: list[str]) -> str:
    head, rest = lines[0], lines[1:]
    if rest and all(line.startswith("    ") for line in rest):
        has_items = head in ("Args:", "Attributes:", "Raises:")
        text = _listed(rest) if has_items else f"<p>{_inline(' '.join(map(str.strip, rest)))}</p>"
        return f"<h4>{_inline(head.rstrip(':'))}</h4>{text}"
    if head.startswith("- "):
        return _listed(lines)
    if all(len(line) > 60 for line in lines[:-1]):  # as prose is wrapped
        return f"<p>{_inline(' '.join(lines))}</p>"
    columns = (re.sub(" {2,}", "\u2003", line.strip()) for line in lines)
    return f'<p class="lines">{_inline(chr(10).join(columns))}</p>'


def _listed(lines: list[str]) -> str:
    items: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" "):
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.removeprefix("- "))
    return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def contents(course: Course) -> str:
    """The modules, as the sidebar lists the sections of a page."""
    links = (
        f'<li><a class="reference internal" href="#{anchor(module)}">{number} {module}</a></li>'
        for number, module in enumerate(course.modules, 1)
    )
    return f'<ul><li><a href="#">Stubs</a><ul>{"".join(links)}</ul></li></ul>'


def html(course: Course, highlight: Callable[[str], str]) -> str:
    """The page's content; `highlight` makes HTML of Python."""
    parts = [
        "<h1>Stubs</h1><p>What you hand in, with its signature and its documentation. "
        "The files are in your folder <code>assignment/</code>.</p>"
    ]
    for number, (module, source) in enumerate(agreement.stubs(course).items(), 1):
        link = f'<a href="{number:02}_{module}.html">{number}</a>'
        parts.append(f'<h2 id="{anchor(module)}">{link} {escape(module)}</h2>')
        for name in [name for name, of in modules_of(course).items() if of == module]:
            said = "".join(highlight(one) + as_html(text) for one, text in stub(source, name))
            parts.append(
                f'<section class="stub" id="{anchor(name)}"><h3><code>{escape(name)}</code></h3>'
                f"{said}</section>"
            )
    return "".join(parts)
