"""Remove the marks of the handout's figures: `[16]{#adamw_bytes}` in the Markdown becomes 16."""

import re

# Brackets may nest three deep, because a figure may be a matrix.
_FLAT = r"[^\[\]]*+"
_NESTED = rf"(?:[^\[\]]|\[{_FLAT}\])*+"
MARK = re.compile(rf"\[((?:[^\[\]]|\[{_NESTED}\])*+)\]\{{#(\w+)\}}")


def without_marks(markdown: str) -> str:
    """The text that a reader sees; line numbers do not change."""
    return MARK.sub(r"\1", markdown)
