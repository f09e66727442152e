"""The Sphinx extension: pictures, calculators and answers in the Markdown, formulas as MathML."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.docutils import SphinxDirective

from grader.base.markdown_figures import without_marks
from handout.site import (
    calculator_formulas,
    calculators,
    chapter_notebooks,
    mathml,
    pictures,
    quizzes,
    stub_page,
)
from handout.site.problem_boxes import course, with_problems

NUMBER = re.compile(r"(\d+)\.(\d+) ")
STUBS = "stubs"  # the page
FONT = Path(__file__).parent / "dejavu-math.woff2"


class Picture(SphinxDirective):
    """`{picture} name` with a caption: embeds a picture of handout/site/pictures in the page."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the picture as a figure."""
        name = self.arguments[0]
        if name not in pictures.PICTURES:
            raise self.error(
                f"no picture is called {name!r}; there are {', '.join(pictures.PICTURES)}"
            )
        if not self.content:
            raise self.error(f"the picture {name!r} needs a caption")
        words, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        drawn = nodes.raw(
            "", f'<div class="drawn">{pictures.PICTURES[name]().svg()}</div>', format="html"
        )
        caption = nodes.caption("", "", *words)
        named = {"ids": [f"picture-{name}"], "classes": ["picture"]}
        return [nodes.figure("", drawn, caption, **named), *messages]


class Form(SphinxDirective):
    """`{calculator} name` and `{quiz} name`: embed one of calculators.toml or of napkin.toml."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the form."""
        made, known = (
            (calculators.html, calculator_formulas.load())
            if self.name == "calculator"
            else (quizzes.html, quizzes.questions())
        )
        name = self.arguments[0]
        if name not in known:
            raise self.error(f"no {self.name} is called {name!r}; there are {', '.join(known)}")
        return [nodes.raw("", made(name), format="html")]


class Answer(SphinxDirective):
    """`{answer}`: a folded answer to an exercise, which is unfolded in print."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the answer between the tags of a `details` element."""
        opened = '<details class="answer"><summary>Answer</summary>'
        return [
            nodes.raw("", opened, format="html"),
            *self.parse_content_to_nodes(),
            nodes.raw("", "</details>", format="html"),
        ]


def write_data(app: Sphinx) -> None:
    """Write the formulas as JavaScript and the maths font as CSS, for Sphinx to copy."""
    made = Path(app.doctreedir) / "made"
    made.mkdir(parents=True, exist_ok=True)
    (made / "calculators_data.js").write_text(calculator_formulas.javascript(), encoding="utf-8")
    # The font is in the CSS itself, because some browsers load no font from a file.
    font = base64.b64encode(FONT.read_bytes()).decode("ascii")
    face = (
        '@font-face { font-family: "DejaVu Math"; '
        f'src: url("data:font/woff2;base64,{font}") format("woff2"); }}'
    )
    (made / "math.css").write_text(face + "\n", encoding="utf-8")
    app.config.html_static_path.append(str(made))


def prepare(_app: Sphinx, _name: str, content: list[str]) -> None:
    """Remove the marks of figures and write the boxes, before anything else reads a page.

    Marks may therefore appear in formulas and code too.
    """
    content[0] = with_problems(without_marks(content[0]))


def number_sections(_app: Sphinx, doctree: nodes.document) -> None:
    """Give each numbered section an id such as `section-7-1`, which reports link to.

    The ids that are made from titles change when a title does.
    """
    for section in doctree.findall(nodes.section):
        if number := NUMBER.match(section[0].astext()):
            section["ids"].append(f"section-{number[1]}-{number[2]}")


def adapt_page(
    app: Sphinx, name: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None
) -> None:
    """Change what a page's template gets: its text, and the sidebar."""
    if "body" in context:
        body = _without_role_of_citations(context["body"])
        chapter = app.builder.name == "html" and name[:1].isdigit()
        context["body"] = _with_breaks(_with_notebook(body, name) if chapter else body)
    if app.builder.name == "html":
        _list_sections(name, context)


def _without_role_of_citations(body: str) -> str:
    """Remove the role that docutils gives to a list of works, whose entries do not have its role.

    Screen readers announce such a list as empty.
    """
    return body.replace('<div role="list" class="citation', '<div class="citation')


def _with_notebook(body: str, name: str) -> str:
    """Link a chapter to its notebook, below the title. The PDF has no such link."""
    link = f'<a href="{chapter_notebooks.FOLDER}/{name}.ipynb" download>Notebook</a>'
    if address := chapter_notebooks.in_colab(course(), name):
        link += f' · <a href="{address}">Open in Colab</a>'
    return body.replace("</h1>", f'</h1>\n<p class="notebook">{link}</p>', 1)


def _with_breaks(body: str) -> str:
    """Let code in tables break after a dot or an underscore, not inside of a word."""

    def broken(cell: re.Match[str]) -> str:
        return re.sub(
            r'(?<=<span class="pre">)[^<]*',
            lambda code: re.sub(r"([._=/])(?=\w)", r"\1<wbr>", code[0]),
            cell[0],
        )

    return re.sub(r"<td.*?</td>", broken, body, flags=re.DOTALL)


def _list_sections(name: str, context: dict[str, Any]) -> None:
    """List the page of stubs in the sidebar, and the sections of the current page below its title.

    No table of contents has the page of stubs, because the PDF does not have it. The sections
    replace Furo's list on the right, which only wide screens show. static/page.js marks the section
    that is being read.
    """
    tree = BeautifulSoup(context.get("furo_navigation_tree", ""), "html.parser")
    sections = BeautifulSoup(context.get("toc", ""), "html.parser").select_one("li > ul")
    if tree.ul:
        link = f'<a class="reference internal" href="{STUBS}.html">Stubs</a>'
        current = " current current-page" * (name == STUBS)
        item = BeautifulSoup(f'<li class="toctree-l1{current}">{link}</li>', "html.parser")
        tree.ul.append(item)
    page = tree.select_one("li.current-page")
    if page and sections:
        sections["class"] = "sections"
        page.append(sections)
        context["furo_hide_toc"] = True
    context["furo_navigation_tree"] = str(tree)


def mark_stubs(app: Sphinx, doctree: nodes.document) -> None:
    """Note at each name of an asked function in the text, outside of titles, that it is one."""
    names = stub_page.linked(course(), app.env.docname)
    for literal in doctree.findall(nodes.literal):
        if literal.astext() in names and isinstance(literal.parent, nodes.paragraph):
            literal["stub"] = literal.astext()


def link_stubs(app: Sphinx, doctree: nodes.document, _name: str) -> None:
    """Link these names to the page of stubs, which only the site has and not the PDF."""
    if app.builder.name != "html":
        return
    for literal in list(doctree.findall(nodes.literal)):
        if name := literal.get("stub"):
            link = nodes.reference("", "", refuri=f"{STUBS}.html#{stub_page.anchor(name)}")
            literal.parent.replace(literal, link)
            link += literal


def stubs_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of stubs, made from assignment/."""

    if isinstance(app.builder, StandaloneHTMLBuilder) and app.builder.name == "html":
        highlighter = app.builder.highlighter
        body = stub_page.html(course(), lambda code: highlighter.highlight_block(code, "python"))
        toc = stub_page.contents(course())
        yield STUBS, {"title": "Stubs", "body": body, "toc": toc}, "page.html"


def write_notebooks(app: Sphinx, error: Exception | None) -> None:
    """Write the notebook of each chapter."""
    if error is None and app.builder.name == "html":
        folder = Path(app.outdir) / chapter_notebooks.FOLDER
        folder.mkdir(exist_ok=True)
        for name, content in chapter_notebooks.written(course()).items():
            (folder / f"{name}.ipynb").write_text(content, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx, which calls this function."""
    mathml.setup(app)
    app.add_directive("picture", Picture)
    app.add_directive("calculator", Form)
    app.add_directive("quiz", Form)
    app.add_directive("answer", Answer)
    app.connect("builder-inited", write_data)
    app.connect("source-read", prepare)
    app.connect("doctree-read", number_sections)
    app.connect("doctree-read", mark_stubs)
    app.connect("doctree-resolved", link_stubs)
    app.connect("html-collect-pages", stubs_page)
    app.connect("build-finished", write_notebooks)
    # After Furo, which makes the tree of the sidebar.
    app.connect("html-page-context", adapt_page, priority=900)
    return {"parallel_read_safe": True}
