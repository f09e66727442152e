"""Make untrusted text safe to print.

A terminal obeys control characters, and a log has limited space.
"""

import unicodedata

# Control, format (including bidirectional overrides), surrogate, private use, line and paragraph
# separators.
UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def printable(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with unsafe characters shown as escapes. Line ends stay."""
    cut = text[:limit] + ("…" if len(text) > limit else "")
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in UNSAFE else _escape(c) for c in cut
    )


def one_line(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with unsafe characters and line ends shown as escapes."""
    return printable(text, limit).replace("\n", "\\n")


def labelled(label: str, text: str) -> str:
    """A line of a failure's message: a label in its own column, then a text."""
    return f"  {label:<9} {text}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
