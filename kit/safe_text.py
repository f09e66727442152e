"""Make untrusted text safe to print, and every text printable.

A terminal obeys control characters, and a log has limited space. Where the output has an encoding
such as cp1252, as in a pipe on Windows, not every character can be printed.
"""

import codecs
import io
import re
import sys
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

# Control, format (including bidirectional overrides), surrogate, private use, line and paragraph
# separators.
UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
STYLE = re.compile(r"\x1b\[[\d;:]*m")  # what makes a part of a library's message bold or coloured
# What torch.load with weights_only=True has found in a file.
REFUSED = re.compile(r"GLOBAL (\S+)|[Uu]nsupported (\w+ \S+)")
# What is printed instead of a character that the output's encoding lacks; "?" for all others.
PLAIN = {"█": "#", "·": ".", "…": "...", "−": "-", "–": "-", "→": "->", "≤": "<=", "₁": "1"}

# What is worth a look after an exception with these words.
WORTH_A_LOOK = {
    "a leaf Variable that requires grad": "a step changes parameters under torch.no_grad()",
    "backward through the graph a second time": (
        "this reaches a graph whose backward pass is over: which tensor should be detached?"
    ),
    "does not require grad": "is the graph built with gradients on, and from what requires one?",
    "NoneType": "what is None here: a gradient, or the result of a function without a `return`?",
    "BdbQuit": "nobody is at the grader's keyboard: delete breakpoint() or set_trace()",
    "of the mask": "are uint8 codes an index? torch takes them for a mask: codes.long()",
    "duplicate dimension": "on one side of a pattern, each axis has a name of its own",
    "shapes cannot be multiplied": "which factor comes first, and which one is transposed?",
    "size mismatch for": "which shape does the docstring give this parameter?",
}
CONTINUED = re.compile(r":\n\s+")  # as in the list of what does not fit a state_dict

PLOT_WIDTH, PLOT_HEIGHT = 60, 8


def print_anywhere() -> None:
    """Let nothing that is printed raise a UnicodeEncodeError, whatever the output's encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


@contextmanager
def ticking(text: str, out: TextIO) -> Iterator[None]:
    """Say what is going on if it takes a moment, with a dot for each further second."""
    done, said = threading.Event(), list[str]()

    def tick() -> None:
        while not done.wait(1.0 if said else 0.3):
            out.write("." if said else text)
            out.flush()
            said.append(text)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        out.write("\n" if said else "")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(PLAIN.get(c, "?") for c in missing), error.end


codecs.register_error("plain", _plain)


def printable(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with unsafe characters shown as escapes. Line ends stay."""
    cut = text[:limit] + ("…" if len(text) > limit else "")
    if cut.isprintable():
        return cut
    return "".join(
        c.encode("unicode_escape", "surrogatepass").decode("ascii")
        if c != "\n" and unicodedata.category(c) in UNSAFE
        else c
        for c in cut
    )


def one_line(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with unsafe characters and line ends shown as escapes."""
    return printable(text, limit).replace("\n", "\\n")


def end_of_line(text: str, limit: int) -> str:
    """`text` as the end of one line of a log, in which GitHub obeys no command like `##[error]`."""
    return one_line(text, limit).replace("##[", "## [")


def first(names: Sequence[str], most: int) -> str:
    """The first names, separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(number: int, one: str, several: str = "") -> str:
    """A number of things, as in `1 test` and `2 tests`.

    Args:
        number: How many there are.
        one: The words for one of them.
        several: The words for another number, as in `students are` (default: `one` with an s).
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"


IN_A_TEMPORARY_FOLDER = re.compile(
    r"\[Errno 2\] No such file or directory: '[^']*[\\/]tmp\w{8}[\\/]+([^']+)'"
)


def message_of(text: str) -> str:
    """An exception's text for a student: without codes for styles, and without torch's own advice.

    The name of a temporary folder tells a student nothing, and torch.load explains each file that
    it refuses by how to load it without weights_only=True.
    """
    text = IN_A_TEMPORARY_FOLDER.sub(r"there is no file \1", STYLE.sub("", text))
    text = CONTINUED.sub(": ", text)
    if "Weights only load failed" not in text:
        return text
    found = REFUSED.search(text)
    what = f": it contains {found[1] or found[2]}" if found else ""
    return f"torch.load refuses the file{what}, which is neither a tensor nor plain data"


def worth_a_look(text: str) -> str:
    """A hint on an exception with this text; "" if its words say enough."""
    return next((hint for words, hint in WORTH_A_LOOK.items() if words in text), "")


def pointer(hint: str | None, section: str) -> list[str]:
    """The last line of a failure: a hint, and the section of the handout."""
    told = [hint, f"handout §{section}" if section else ""]
    text = "    ".join(filter(None, told))
    return [labelled("hint" if hint else "see", text)] if text else []


def slow_import(module: str, limit: str) -> str:
    """What is said of a module of this path that is still being imported after this time."""
    return (
        f"importing {module} takes longer than {limit}: look for an endless loop outside of all "
        "functions, or move slow work into one"
    )


def labelled(label: str, text: str) -> str:
    """A line of a failure's message: a label in its own column, then a text."""
    return f"  {label:<9} {text}"


def plot(points: Sequence[tuple[float, float, str]]) -> str:
    """Points for a terminal, from x = 0 on, each with its mark; two marks in a place are an @."""
    right = max(x for x, _, _ in points) or 1
    low, high = min(y for _, y, _ in points), max(y for _, y, _ in points)
    rows = [[" "] * (PLOT_WIDTH + 1) for _ in range(PLOT_HEIGHT + 1)]
    for x, y, mark in points:
        row = round((high - y) / ((high - low) or 1) * PLOT_HEIGHT)
        column = round(x / right * PLOT_WIDTH)
        rows[row][column] = mark if rows[row][column] in (" ", mark) else "@"
    sides = [f"{high:.4g}", *[""] * (PLOT_HEIGHT - 1), f"{low:.4g}"]
    lines = [f"{side:>9} |{''.join(row)}".rstrip() for side, row in zip(sides, rows, strict=True)]
    return "\n".join([*lines, f"{'':11}0{right:>{PLOT_WIDTH}}"])
