"""No solution on the pages: what is read on them, and what they load, is held against the reference."""

import ast
from html.parser import HTMLParser

import pytest

from grader import course as courses
from grader.publish import leaks
from handout.site import agreement, formulas
from tests.handout.page_figures import CODE

COURSE = courses.load()
LONG = 24  # characters without blanks: `for _ in range(2):` and `np.save(file, tokens)` are in every program


class Code(HTMLParser):
    """The text of each piece of code on a page."""

    def __init__(self):
        super().__init__()
        self.depth, self.pieces = 0, []

    def handle_starttag(self, tag, attrs):
        """A piece begins."""
        if tag in ("pre", "code"):
            self.depth += 1
            self.pieces.append("")

    def handle_endtag(self, tag):
        """A piece ends."""
        self.depth -= tag in ("pre", "code")

    def handle_data(self, data):
        """What stands in it."""
        if self.depth:
            self.pieces[-1] += data


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_no_line_of_a_solution_is_on_a_page(site):
    """Neither in the text, nor in its code, nor in what the page loads, however it is spaced and quoted."""
    secret = {code: where for code, where in leaks.secrets(COURSE).items() if len(code) >= LONG}
    files = {}
    for path in [*site.glob("*.html"), *site.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        parser = Code()
        parser.feed(text)
        files |= {path.name: text.encode(), f"{path.name}: code": "\n".join(parser.pieces).encode()}
    assert leaks.leaks(files, secret) == []
    assert sum(content.count(b"\n") for content in files.values()) > 10_000


def test_no_code_on_a_page_defines_what_a_problem_asks_for():
    """Code blocks call the student's functions; they define none of them."""
    asked = {name for problem in COURSE.problems for name in problem.functions}
    defined = set()
    for text in agreement.pages().values():
        for block in CODE.findall(text):
            source = "\n".join(
                line[4:] for line in block.splitlines() if line.startswith((">>> ", "... "))
            )
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    defined.add(node.name)
    assert defined & asked == set()


def test_no_formula_of_a_calculator_is_an_expression_of_the_reference():
    """They say the same in other words: none can be pasted in for a solution."""
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
