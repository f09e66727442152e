"""The format of wrong solutions: each is shown as an edit of a program.

    [eps_inside_root] Epsilon is inside the square root.
    hint: is ε added after the root is taken, as in √v̂ + ε?
    - (v_hat.sqrt() + eps)
    + (v_hat + eps).sqrt()

An entry is a heading, some of the lines that begin with one of `KEYS`, and code. It ends
with an empty line. The `-` lines occur exactly once in the reference, one after the other, and the
`+` lines replace them; a `+` alone, or none, removes them. Each `-` after a `+` begins another
change. An entry that has only `+` lines is a program of its own: the definitions that replace the
reference's. known_mistakes.py says what the keys mean.

    [base plain]
    + def step(w, g):
    +     return w - g

    [upwards in plain] The step is in the wrong direction.
    - w - g
    + w + g

Some edits are easier in a plainer program than the reference. `[base plain]` is such a program. It
is right, which `grader validate` checks, and `[name in plain]` is an edit of it.

Code begins after the sign and one space, and an empty line of code is the sign alone, so no code
can be read as anything else. Lines that begin with # are comments.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest

KEYS = ("hint", "price", "most", "device", "unread")
HEADING = re.compile(r"\[(?P<is_base>base )?(?P<name>\w+)(?: in (?P<base>\w+))?\] *(?P<says>.*)")
ANY_HEADING = "`[name] what is wrong`, `[name in BASE] what is wrong` or `[base NAME]`"
ANY_LINE = f"{', '.join(f'`{key}: …`' for key in KEYS)}, `- code`, `+ code` or an empty line"

Numbered = tuple[int, str]


@dataclass(frozen=True)
class Change:
    """A text of the program, and its replacement."""

    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One entry of a file."""

    line: int = 0  # the number of its heading
    name: str
    says: str = ""  # what is wrong; empty for a base
    is_base: bool = False  # whether it is a program that others are edits of
    base: str | None = None  # the name of the base that it edits, if it does not edit the reference
    keys: dict[str, str] = field(default_factory=dict)  # the text after `hint:`, and so on
    changes: tuple[Change, ...] = ()  # its edits, if it has `-` lines
    source: str | None = None  # its definitions, if it has only `+` lines


class BadLine(ValueError):
    """Something in a line is not as the format requires."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def entries(text: str) -> Iterator[Edit | BadLine]:
    """Each entry of a file, or what is wrong with it."""
    for block in _blocks(text):
        try:
            yield _entry(block)
        except BadLine as e:
            yield e


def _blocks(text: str) -> Iterator[list[Numbered]]:
    """The lines of each entry with their numbers, without comments."""
    block: list[Numbered] = []
    for number, line in enumerate(text.split("\n"), 1):  # code may contain other ends of lines
        if block and (not line.strip() or line.startswith("[")):
            yield block
            block = []
        if line.strip() and not line.startswith("#"):
            block.append((number, line))
    if block:
        yield block


def _entry(block: list[Numbered]) -> Edit:
    (line, head), *rest = block
    entry = _heading(line, head)
    for number, text in rest:
        if text[0] not in "-+":
            _add_key(entry.keys, number, text)
        elif text[1:2] not in ("", " "):
            raise BadLine(number, f"expected a space after `{text[0]}`, got `{text}`")
    if entry.is_base and entry.keys:
        raise BadLine(line, f"expected only `+` lines in base {entry.name}, got {min(entry.keys)}")
    return _with_code(entry, [text for _, text in rest if text[0] in "-+"])


def _with_code(entry: Edit, code: list[str]) -> Edit:
    """The entry with its changes or its source."""
    parts = [
        (sign, "\n".join(text[2:] for text in texts))
        for sign, texts in groupby(code, key=lambda text: text[0])
    ]
    signs, texts = [sign for sign, _ in parts], [text for _, text in parts]
    if signs == ["+"] and not entry.base:
        return replace(entry, source=texts[0] + "\n")
    if entry.is_base or signs[:1] != ["-"]:
        wanted = "only `+` lines" if entry.is_base else "a `-` line before the first `+`"
        got = " and ".join(f"`{sign}`" for sign in dict.fromkeys(signs)) or "no code"
        raise BadLine(entry.line, f"{entry.name}: expected {wanted}, got {got}")
    pairs = zip_longest(texts[::2], texts[1::2], fillvalue="")
    return replace(entry, changes=tuple(Change(old, new) for old, new in pairs))


def _heading(line: int, head: str) -> Edit:
    """An entry without code."""
    found = HEADING.fullmatch(head)
    if not found:
        raise BadLine(line, f"expected {ANY_HEADING}, got `{head}`")
    name, says, is_base = found["name"], found["says"].rstrip(), bool(found["is_base"])
    if is_base == bool(says) or (is_base and found["base"]):
        raise BadLine(line, f"expected {ANY_HEADING}, got `{head}`")
    return Edit(line=line, name=name, says=says, is_base=is_base, base=found["base"])


def _add_key(keys: dict[str, str], line: int, text: str) -> None:
    key, _, said = (part.strip() for part in text.partition(":"))
    if key not in KEYS or not said:
        raise BadLine(line, f"expected {ANY_LINE}, got `{text}`")
    if key in keys:
        raise BadLine(line, f"expected one `{key}:`, got a second one")
    keys[key] = said
