"""The Sphinx extension: pictures and calculators for the Markdown, and how formulas are written."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from handout.site import calculators, formulas, mathml, pictures


class Picture(SphinxDirective):
    """`{picture} name` with a caption: one of handout/site/pictures.py, in the page itself."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The picture as a figure."""
        name = self.arguments[0]
        if name not in pictures.PICTURES:
            raise self.error(f"no picture is called {name!r}; there are {', '.join(pictures.PICTURES)}")
        if not self.content:
            raise self.error(f"the picture {name!r} needs a caption")
        words, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        drawn = nodes.raw("", f'<div class="drawn">{pictures.PICTURES[name]().svg(name)}</div>', format="html")
        return [nodes.figure("", drawn, nodes.caption("", "", *words), ids=[f"picture-{name}"], classes=["picture"]), *messages]


class Calculator(SphinxDirective):
    """`{calculator} name`: one of calculators.toml."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The form."""
        name = self.arguments[0]
        if name not in formulas.load():
            raise self.error(f"no calculator is called {name!r}; there are {', '.join(formulas.load())}")
        return [nodes.raw("", calculators.html(name), format="html")]


def write_data(app: Sphinx) -> None:
    """The formulas as JavaScript, among the files that Sphinx copies."""
    made = Path(app.doctreedir) / "made"
    made.mkdir(parents=True, exist_ok=True)
    (made / "calculators_data.js").write_text(formulas.javascript(), encoding="utf-8")
    app.config.html_static_path.append(str(made))


def reach_by_keyboard(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """What may scroll sideways on a narrow screen, code and tables, can be reached and scrolled by keyboard."""
    body = context.get("body", "").replace("<pre>", '<pre tabindex="0">')
    context["body"] = body.replace(
        '<div class="table-wrapper', '<div tabindex="0" role="group" aria-label="Table" class="table-wrapper'
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    mathml.setup(app)
    app.add_directive("picture", Picture)
    app.add_directive("calculator", Calculator)
    app.connect("builder-inited", write_data)
    app.connect("html-page-context", reach_by_keyboard)
    return {"parallel_read_safe": True}
