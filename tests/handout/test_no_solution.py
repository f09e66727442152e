"""No page or file loaded by a page contains a line of a solution."""

import ast
from html.parser import HTMLParser

import pytest

from grader.course import courses
from grader.publish import leaks
from handout.site import agreement, formulas
from tests.handout.page_figures import CODE

COURSE = courses.load()
# The least number of non-blank characters. Shorter lines, such as `for _ in range(2):` and
# `np.save(file, tokens)`, are in every program.
LONG = 24


class Code(HTMLParser):
    """Collects the text of each code element on a page."""

    def __init__(self):
        super().__init__()
        self.depth, self.pieces = 0, []

    def handle_starttag(self, tag, attrs):
        """Start a code element."""
        if tag in ("pre", "code"):
            self.depth += 1
            self.pieces.append("")

    def handle_endtag(self, tag):
        """End a code element."""
        self.depth -= tag in ("pre", "code")

    def handle_data(self, data):
        """Add the data to the current code element."""
        if self.depth:
            self.pieces[-1] += data


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_no_line_of_a_solution_is_on_a_page(site):
    """No line is in the text, in the code or in the files that a page loads.

    Spaces and quotes are ignored.
    """
    secret = {code: where for code, where in leaks.secrets(COURSE).items() if len(code) >= LONG}
    files = {}
    for path in [*site.glob("*.html"), *site.rglob("*.js"), *site.rglob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        parser = Code()
        parser.feed(text)
        files |= {path.name: text.encode(), f"{path.name}: code": "\n".join(parser.pieces).encode()}
    assert leaks.leaks(files, secret) == []
    assert sum(content.count(b"\n") for content in files.values()) > 10_000


def test_no_code_on_a_page_defines_what_a_problem_asks_for():
    """Blocks of code call the student's functions and define none of them."""
    asked = {name for problem in COURSE.problems for name in problem.functions}
    defined = set()
    for text in agreement.pages().values():
        for block in CODE.finditer(text):
            lines = [line.strip() for line in block["code"].splitlines()]
            source = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    defined.add(node.name)
    assert defined & asked == set()


def test_no_formula_of_a_calculator_is_an_expression_of_the_reference():
    """Formulas are written differently, so none can be pasted as a solution."""
    expressions = {
        ast.unparse(node.value)
        for path in COURSE.reference.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Return, ast.Assign)) and node.value is not None
    }
    written = {
        ast.unparse(formulas.checked(r.formula))
        for c in formulas.load().values()
        for r in [*c.result, *c.column]
    }
    assert {formula for formula in written & expressions if not formula.isidentifier()} == set()
