"""Formulas as MathML in the page itself, which needs no script, no font and no network."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def mathml(latex: str, *, block: bool) -> str:
    """A formula as MathML, with its LaTeX as alternative text for screen readers.

    Raises:
        ValueError: The formula contains something that the converter does not know.
    """
    known = latex.replace("{aligned}", "{align*}")  # the converter knows only this name
    result = convert(known, display="block" if block else "inline")
    rows = len(re.findall(r"\\\\(?!\s*\\end)", known)) + len(re.findall(r"\\begin\{", known))
    if "&</mi>" in result or re.search(r"<mi>\\", result) or result.count("<mtr>") != rows:
        raise ValueError(f"latex2mathml does not know all of this formula: {latex}")
    spoken = latex.strip().replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    # Browsers ignore `columnalign` and honour only the style.
    result = re.sub(r'columnalign="(\w+)"', r'style="text-align: \1"', result)
    return str(result).replace("<math ", f'<math alttext="{spoken}" ', 1)


def _visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Make Sphinx write formulas with these functions."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
