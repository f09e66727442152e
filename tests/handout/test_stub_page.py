"""Names in the text lead to stubs, of which the page shows the signature and the docstring."""

import ast
import html
import inspect
import re

import pytest

from grader.course import courses
from grader.publish import secret_leaks
from handout.site import agreement, calculator_formulas, stub_page
from tests.handout.page_figures import CODE

COURSE = courses.load()


def words(text):
    return " ".join(re.findall(r"\w+", text))


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_every_name_of_a_problem_leads_to_its_stub(site):
    page, sources = (site / "stubs.html").read_text(encoding="utf-8"), agreement.stubs(COURSE)
    for number, module in enumerate(COURSE.modules, 1):
        pages = site.glob(f"{number:02}_*.html")
        chapter = "".join(page.read_text(encoding="utf-8") for page in pages)
        tree = {getattr(node, "name", None): node for node in ast.parse(sources[module]).body}
        for name in [n for p in COURSE.problems if p.module == module for n in p.functions]:
            assert f'href="stubs.html#stub-{name}"' in chapter, name
            _, found, shown = page.partition(f'<section class="stub" id="stub-{name}">')
            text = html.unescape(re.sub("<[^>]+>", " ", shown.partition("</section>")[0]))
            assert found, name
            assert words(ast.get_docstring(tree[name])) in words(text), name
            assert 'href="stubs.html"' in chapter, "the sidebar lists the page"
    assert "TODO" not in page
    assert "NotImplementedError(" not in page


def test_no_body_is_shown():
    source = '''
@given
def area(
    width: float,
) -> float:
    """The area."""
    secret = width
    return secret


class Square:
    """A square."""

    secret = 2

    def side(self) -> int:
        # A secret.
        return self.secret

    def area(self) -> int:
        """Its area."""

        def secret(): ...
'''
    signature = "@given\ndef area(\n    width: float,\n) -> float:"
    assert stub_page.stub(source, "area") == [(signature, "The area.")]
    assert stub_page.stub(source, "Square") == [
        ("class Square:", "A square."),
        ("def side(self) -> int:", ""),
        ("def area(self) -> int:", "Its area."),
    ]


def test_a_docstring_is_text():
    docstring = """Move `p`.

    m ← β m
    p ← p − m < 1

    Args:
        p: A tensor, which
            is changed.
        m: Another one.
    """
    assert stub_page.as_html(inspect.cleandoc(docstring)) == (
        '<p>Move <code>p</code>.</p><p class="lines">m ← β m\np ← p − m &lt; 1</p>'
        "<h4>Args</h4><ul><li>p: A tensor, which is changed.</li><li>m: Another one.</li></ul>"
    )


def test_a_common_word_is_a_link_only_in_its_own_chapter():
    """The problem `checkpoint` of one chapter is not the function `checkpoint` of another."""
    pages = ("12_activation_checkpointing", "10_checkpointing", "index")
    own, other, start = (stub_page.linked(COURSE, page) for page in pages)
    assert "checkpoint" in own - other
    assert "tensor_bytes" in other & start


# --- no page or file loaded by a page contains a line of a solution -------------------------------


# The least number of non-blank characters. Shorter lines, such as `for _ in range(2):` and
# `np.save(file, tokens)`, are in every program.
LONG = 24


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_no_line_of_a_solution_is_on_a_page(site):
    secret = secret_leaks.secrets(COURSE)
    secret = {code: where for code, where in secret.items() if len(code) >= LONG}
    files = {}
    for path in [*site.glob("*.html"), *site.rglob("*.js"), *site.rglob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        pieces = (piece for _, piece in re.findall(r"(?s)<(pre|code)\b[^>]*>(.*?)</\1>", text))
        code = html.unescape(re.sub("<[^>]+>", "", "\n".join(pieces)))
        files |= {path.name: text.encode(), f"{path.name}: code": code.encode()}
    assert secret_leaks.leaks(files, secret) == []
    assert sum(content.count(b"\n") for content in files.values()) > 10_000


def test_no_code_on_a_page_defines_what_a_problem_asks_for():
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
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in COURSE.reference.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    values = [node.value for node in nodes if isinstance(node, (ast.Return, ast.Assign))]
    expressions = {ast.unparse(value) for value in values if value is not None}
    results = [r for c in calculator_formulas.load().values() for r in [*c.result, *c.column]]
    written = {ast.unparse(calculator_formulas.checked(result.formula)) for result in results}
    assert {formula for formula in written & expressions if not formula.isidentifier()} == set()
