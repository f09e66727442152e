"""Self-contained HTML pages: one file that makes no request, in which untrusted text cannot run.

Templates escape every value. The Content-Security-Policy of a page allows its own style and
scripts, by their hashes, and nothing else.
"""

import base64
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

TEMPLATES = Path(__file__).parent / "templates"


def render(
    template: str,
    *,
    title: str,
    folder: Path = TEMPLATES,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    **values: Any,
) -> str:
    """A whole page from a template that extends `base.html`, whose values are all escaped.

    Styles follow `base.css`, and scripts, only trusted ones, run at the end of the page.
    """
    look = (TEMPLATES / "base.css").read_text(encoding="utf-8")
    style = "\n".join([look, *styles])
    return (
        _environment(folder)
        .get_template(template)
        .render(
            title=title,
            style=_raw(style, "style"),
            scripts=[_raw(script, "script") for script in scripts],
            content_policy=_content_policy(style, scripts),
            **values,
        )
    )


@functools.cache
def _environment(folder: Path) -> Environment:
    """The templates of a folder; each template is compiled only once."""
    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_code"] = with_code
    return environment


def with_code(text: str) -> Markup:
    """An escaped text in which the parts between backticks are formatted as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def _content_policy(style: str, scripts: Sequence[str]) -> Markup:
    """The page's Content-Security-Policy: its own style and scripts, and embedded pictures."""
    rules = [
        "default-src 'none'",
        f"style-src {_hash(style)}",
        f"script-src {' '.join(map(_hash, scripts)) or chr(39) + 'none' + chr(39)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return Markup("; ".join(rules))


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _raw(text: str, element: str) -> Markup:
    """The content of a style or script element, which HTML does not unescape."""
    if f"</{element}" in text.lower() or "<!--" in text:
        raise ValueError(f"a {element} element cannot hold this text")
    return Markup(text)
