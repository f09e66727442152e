"""Make untrusted text safe to print, and every text printable.

A terminal obeys control characters, and a log has limited space. Where the output has an encoding
such as cp1252, as in a pipe on Windows, not every character can be printed.
"""

import codecs
import io
import sys
import unicodedata

# Control, format (including bidirectional overrides), surrogate, private use, line and paragraph
# separators.
UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
# What is printed instead of a character that the output's encoding lacks; "?" for all others.
PLAIN = {"█": "#", "·": ".", "…": "...", "−": "-", "–": "-", "→": "->", "≤": "<=", "₁": "1"}


def print_anywhere() -> None:
    """Let nothing that is printed raise a UnicodeEncodeError, whatever the output's encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(PLAIN.get(c, "?") for c in missing), error.end


codecs.register_error("plain", _plain)


def printable(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with unsafe characters shown as escapes. Line ends stay."""
    cut = text[:limit] + ("…" if len(text) > limit else "")
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in UNSAFE else _escape(c) for c in cut
    )


def one_line(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with unsafe characters and line ends shown as escapes."""
    return printable(text, limit).replace("\n", "\\n")


def counted(number: int, what: str) -> str:
    """A number of things, as in `1 test` and `2 tests`; `what` is one of them."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def labelled(label: str, text: str) -> str:
    """A line of a failure's message: a label in its own column, then a text."""
    return f"  {label:<9} {text}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
