"""No solution on the pages: what is read on them, and what they load, is held against the reference."""

import ast
import re
from html.parser import HTMLParser

import pytest

from grader import course as courses
from grader.publish import bundles, leaks
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


def squeezed(line):
    """A line of code without the blanks and quotes that are a matter of style."""
    return re.sub(r"[\s'\"]", "", re.sub(r"^(>>>|\.\.\.) ?", "", line.strip()))


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_no_line_of_a_solution_is_on_a_page(site):
    """Neither as it stands, nor with other blanks and quotes, in the text, in its code or in what the page loads."""
    secret = {
        squeezed(line): where
        for line, where in leaks.secrets(COURSE).items()
        if len(squeezed(line)) >= LONG
    }
    seen = 0
    for path in [*site.glob("*.html"), *site.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        parser = Code()
        parser.feed(text)
        lines = [
            line
            for piece in [*parser.pieces, bundles._text(path.name, text.encode())]
            for line in piece.splitlines()
        ]
        assert [
            (line, secret[squeezed(line)]) for line in lines if squeezed(line) in secret
        ] == [], path.name
        seen += len(lines)
    assert seen > 10_000


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
