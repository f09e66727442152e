"""The marks of the handout's figures: `[16]{#adamw_bytes}` in the Markdown is 16 to every reader."""

import re

# Up to three brackets within one another: a figure may be a matrix.
_FLAT = r"[^\[\]]*+"
_NESTED = rf"(?:[^\[\]]|\[{_FLAT}\])*+"
MARK = re.compile(rf"\[((?:[^\[\]]|\[{_NESTED}\])*+)\]\{{#(\w+)\}}")


def without_marks(markdown: str) -> str:
    """The text that a reader sees; its lines are where they were."""
    return MARK.sub(r"\1", markdown)
