"""Check problems.toml when it is loaded, and report the first error.

The report gives the line, what was expected and what was found. tomllib returns values without line
numbers, so an entry is found by counting headers, and a key by the first line in its entry that has
the key before an equals sign. Quoted text that looks like either can only shift the reported line.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from grader.base import files
from grader.base.errors import did_you_mean

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
PROGRAM = re.compile(r"[\w.+-]+", re.ASCII)
PATTERN = re.compile(r"(?!.*\.(?:py|toml)$)(?:[\w*?-][\w*?.-]*/)*[\w*?-][\w*?.-]*", re.ASCII)
ID = re.compile(r"[a-z][a-z0-9_]*")
SECTION = re.compile(r"[1-9]\d*(\.[1-9]\d*){1,2}")
ENTRY = re.compile(r"\s*\[(\[problem\]|limits)\]")
WEB_ADDRESS = re.compile(r"https?://[\w.~:/%+@-]+", re.ASCII)


@dataclass(frozen=True)
class Wrong:
    """One error in the file."""

    line: int  # the line number
    text: str  # what was expected, and what was found


Entry = str | int | None
Place = tuple[Any, ...]  # the arguments of `line_of` after the text
Found = Iterator[tuple[Place, str]]  # places of errors, each with what is wrong there
# For each key, the expected value in words, and a function that checks a value.
Kinds = Mapping[str, tuple[str, Callable[[Any], bool]]]


def load(text: str, limits: Mapping[str, type]) -> dict[str, Any] | Wrong:
    """Parse the file; return its contents or the first error.

    `limits` has the keys of [limits] with their types, int or float.
    """
    try:
        listed = files.toml_of(text)
    except ValueError as e:
        said, _, place = str(e).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        return Wrong(int(line[1]) if line else text.count("\n") + 1, f"this is not TOML: {said}")
    kinds = {key: _above_zero(is_whole=kind is int) for key, kind in limits.items()}
    for keys, said in _wrong(listed, kinds, text):
        return Wrong(line_of(text, *keys), said)
    return listed


def line_of(text: str, entry: Entry, *keys: str) -> int:
    """The number of the line of an entry or, if it has some of these keys, of the last one found.

    Args:
        entry: "limits", the number of a problem from 0, or None for the whole file.
        keys: A key of the entry, the key in its table, and so on.
    """
    lines = text.splitlines()
    headers = [(i, m[1]) for i, line in enumerate(lines) if (m := ENTRY.match(line))]
    of_kind = [i for i, kind in headers if (kind == "limits") == (entry == "limits")]
    found, end = 0, len(lines)
    if entry is not None:
        number = 0 if entry == "limits" else int(entry)
        found = of_kind[number] if number < len(of_kind) else 0
        end = min([i for i, _ in headers if i > found], default=end)
    for key in keys:
        pattern = re.compile(rf"(^|[\s{{,.\[\"'])({re.escape(key)})[\"']?\s*(=|\]|\.)")
        having = (i for i in range(found, end) if pattern.search(lines[i].split("#")[0]))
        found = next(having, found)
    return found + 1


def _wrong(listed: dict[str, Any], limits: Kinds, text: str) -> Found:
    """Yield every error, from the top of the file to the bottom.

    What comes after an error may raise an exception.
    """
    yield from _names(listed, ["problem"], OF_THE_FILE, "the file", (None,))
    yield from _values(listed, OF_THE_FILE, "", (None,))
    common, problems = listed.get("limits", {}), listed["problem"]
    yield from _names(common, [], limits, "[limits]", ("limits",))
    yield from _values(common, limits, "[limits]: ", ("limits",))
    for number, problem in enumerate(problems):
        yield from _problem(problem, number, limits)
        if (first := [p.get("id") for p in problems].index(problem["id"])) < number:
            same = f"line {line_of(text, first, 'id')} has the same id"
            yield (number, "id"), f"problem {problem['id']}: expected a unique id; {same}"


def _problem(problem: dict[str, Any], number: int, limits: Kinds) -> Found:
    is_named = isinstance(problem.get("id"), str)
    name = f"problem {problem['id']}" if is_named else f"problem number {number + 1}"
    yield from _names(problem, REQUIRED, KEYS, name, (number,))
    yield from _values(problem, KEYS, f"{name}: ", (number,))
    by_definition, known = problem.get("forbidden_in", {}), problem["functions"]
    for definition in by_definition:
        if definition not in known:
            said = f"{name}: forbidden_in: expected one of its functions; got {_shown(definition)}"
            meant = did_you_mean(definition, known)
            yield (number, "forbidden_in", definition), said + meant
    kinds = dict.fromkeys(by_definition, KEYS["forbidden"])
    yield from _values(by_definition, kinds, f"{name}: forbidden_in: ", (number, "forbidden_in"))
    own, where = problem.get("limits", {}), f"{name}: limits"
    yield from _names(own, [], limits, where, (number, "limits"))
    yield from _values(own, limits, f"{where}: ", (number, "limits"))


def _names(
    table: Mapping[str, Any], required: Iterable[str], known: Kinds, where: str, place: Place
) -> Found:
    """Yield unknown keys, then missing keys.

    A misspelt key is both, and the first error suggests the right name.
    """
    for key in table:
        if key not in known:
            meant = did_you_mean(key, known) or f"; the known keys are {', '.join(known)}"
            yield (*place, key), f"{where}: {_shown(key)} is not a known key{meant}"
    for key in required:
        if key not in table:
            yield place, f"{where}: {key} is missing"


def _values(table: Mapping[str, Any], kinds: Kinds, where: str, place: Place) -> Found:
    """Yield the values that are not what their keys expect."""
    for key in kinds:
        expected, holds = kinds[key]
        if key in table and not holds(table[key]):
            said = f"{where}{key}: expected {expected}; got {_shown(table[key])}"
            yield (*place, key), said


def _shown(value: Any) -> str:
    """A value, roughly as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _list_of(one: Callable[[Any], bool], *, at_least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) >= at_least and all(map(one, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _are_reasons(value: Any) -> bool:
    return _is_table(value) and all(isinstance(why, str) and why.strip() for why in value.values())


def _is_package(value: Any) -> bool:
    try:
        needed = Requirement(value)
    except (InvalidRequirement, TypeError):
        return False
    return needed.url is None and needed.marker is None


def _are_points(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _above_zero(*, is_whole: bool) -> tuple[str, Callable[[Any], bool]]:
    kinds = (int,) if is_whole else (int, float)
    expected = f"a {'whole ' if is_whole else ''}number above 0"
    return expected, lambda value: type(value) in kinds and 0 < value < math.inf


# The keys of the file; only `problem` has to be there.
OF_THE_FILE: Kinds = {
    "packages": ('a list of packages as pip names them, like "numpy>=1.26"', _list_of(_is_package)),
    "tools": ('a list of names of programs, like "g++"', _list_of(_matches(PROGRAM))),
    "files": (
        'a list of patterns of files in assignment/, like "*.json"',
        _list_of(_matches(PATTERN)),
    ),
    "folders": ('a list of names of folders, like "flight"', _list_of(_matches(NAME))),
    "story": ('the name of a module, like "flight.story"', _matches(DOTTED)),
    "preload": (
        'a list of names of modules, like "einops.layers.torch"',
        _list_of(_matches(DOTTED)),
    ),
    "bundle_url": ("an address such as https://course.example/student.zip", _matches(WEB_ADDRESS)),
    "green_may_lose": ("a number of points, 0 or more", _are_points),
    "limits": ("a table, [limits]", _is_table),
    "problem": ("entries, [[problem]]", _list_of(_is_table, at_least=1)),
}
# The keys of a problem.
KEYS: Kinds = {
    "id": ('lower-case letters, digits and underscores, like "lr_schedule"', _matches(ID)),
    "module": ('the name of a module, like "optimizers" or "model.layers"', _matches(DOTTED)),
    "functions": (
        'a list of names of definitions, one or more; of a program, write main(): ["main"]',
        _list_of(_matches(NAME), at_least=1),
    ),
    "points": ("a whole number, 1 or more", lambda value: type(value) is int and value >= 1),
    "section": ('chapter and section in quotes, like "8.2" or "8.2.1"', _matches(SECTION)),
    "device": ('"cpu" or "cuda"', lambda value: value in ("cpu", "cuda")),
    "forbidden": ('a list of names, like "torch.optim"', _list_of(_matches(DOTTED))),
    "forbidden_in": ("a table of lists of names, one for each definition", _is_table),
    "limits": ("a table", _is_table),
    "program": ("true or false", lambda value: isinstance(value, bool)),
    "declined": ('a table of reasons, like {"unwritten rope" = "…"}', _are_reasons),
}
REQUIRED = ("id", "module", "functions", "points")
