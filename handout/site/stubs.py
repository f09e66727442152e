"""The page of stubs: the signature and docstring of everything that the problems ask for.

Names in the text link to it. The page shows no body of a function, so it cannot show a solution.
"""

import ast
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


def stub(source: str, name: str) -> str:
    """The signature and docstring of a definition, and those of a class's methods.

    Raises:
        KeyError: The source does not define the name.
    """
    found = {one.name: one for one in ast.parse(source).body if isinstance(one, Definition)}
    lines = source.splitlines()
    parts = [lines[a:b] for a, b in _shown(found[name])]
    # Above a body without docstring may be a comment, such as a TODO.
    return "\n\n".join("\n".join(x for x in part if x.lstrip()[:1] != "#") for part in parts)


def _shown(definition: Definition) -> Iterator[tuple[int, int]]:
    start = min([definition.lineno, *(d.lineno for d in definition.decorator_list)]) - 1
    first = definition.body[0]
    documented = ast.get_docstring(definition) is not None
    yield start, (first.end_lineno or 0) if documented else first.lineno - 1
    if isinstance(definition, ast.ClassDef):
        for method in definition.body:
            if isinstance(method, ast.FunctionDef):
                yield from _shown(method)


def html(course: Course, highlight: Callable[[str], str]) -> str:
    """The page's content; `highlight` makes HTML of Python."""
    sources = agreement.stubs(course)
    parts = [
        "<h1>Stubs</h1><p>What you hand in, with its signature and its documentation. "
        "The files are in your folder <code>assignment/</code>.</p>"
    ]
    for number, (module, source) in enumerate(sources.items(), 1):
        parts.append(f'<h2><a href="{number:02}_{module}.html">{number}</a> {escape(module)}</h2>')
        for name in [name for name, of in modules_of(course).items() if of == module]:
            code = highlight(stub(source, name))
            parts.append(
                f'<section class="stub" id="{anchor(name)}"><h3><code>{escape(name)}</code></h3>'
                f"{code}</section>"
            )
    return "".join(parts)
