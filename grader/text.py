"""Text that a stranger wrote, made safe to print: a terminal obeys control characters, and a log has an end."""

import unicodedata

# Control, format (bidirectional overrides among them), surrogate, private use, line and paragraph separators.
UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def printable(text: str, limit: int) -> str:
    """`text` with every character that is not plain shown as an escape, cut to `limit` characters. Line ends stay."""
    cut = text[:limit] + ("…" if len(text) > limit else "")
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in UNSAFE else _escape(c) for c in cut
    )


def one_line(text: str, limit: int) -> str:
    """The same with line ends shown as escapes, too."""
    return printable(text, limit).replace("\n", "\\n")


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
