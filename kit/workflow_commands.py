"""GitHub's workflow commands: annotations that GitHub shows beside lines of code.

A workflow prints them in its log, as in `::error file=a.py,line=3,title=linear::wrong values`. The
escapes are those of GitHub's documentation "Workflow commands for GitHub Actions". GitHub reads the
escapes back in one pass, so a text that already contains `%0A` stays as it is.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat

from kit.safe_text import counted, printable

# GitHub shows ten annotations of each level for a step.
SHOWN = 10
LEVELS = ("error", "warning")
MAX_MESSAGE = 4_000
MAX_TITLE = 200


@dataclass(frozen=True)
class Annotation:
    """What GitHub shows beside a line."""

    title: str  # its first line, in bold
    message: str  # the text below, of one or more lines
    path: str = ""  # the file in the repository; empty for none
    line: int = 0  # the line; 0 for none


def annotations(found: Iterable[Annotation], notices: Iterable[Annotation] = ()) -> str:
    """The commands for as many annotations as GitHub shows, the first ones first.

    Ten are errors and ten are warnings; a notice says how many are left out.

    Args:
        found: The annotations, most important first.
        notices: Annotations that are not the student's failures.
    """
    found, notices = list(found), list(notices)
    levels = chain.from_iterable(repeat(level, SHOWN) for level in LEVELS)
    commands = [_command(level, one) for level, one in zip(levels, found, strict=False)]
    if left := len(found) - len(commands):
        more = counted(left, "more failure is", "more failures are")
        text = f"{more} not shown here: GitHub shows {len(commands)}"
        notices = [*notices[: SHOWN - 1], Annotation("More failures", text)]
    commands += [_command("notice", one) for one in notices[:SHOWN]]
    return "".join(f"{command}\n" for command in commands)


def quoted(text: str) -> str:
    """A text for the log in which GitHub obeys no command, such as one at the start of a line."""
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}\n{text.rstrip()}\n::{token}::\n"


def _command(level: str, one: Annotation) -> str:
    named = {"file": one.path, "line": one.line or "", "title": one.title[:MAX_TITLE]}
    given = (f"{name}={_property(str(value))}" for name, value in named.items() if value)
    return f"::{level} {','.join(given)}::{_data(one.message)}"


def _data(text: str) -> str:
    """A message, with its line ends."""
    safe = printable(text, MAX_MESSAGE)
    return safe.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
