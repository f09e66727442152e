"""Check problems.toml when it is loaded, and report the first error.

The report gives the line, what was expected and what was found. tomllib returns values without line
numbers, so an entry is found by counting headers, and a key by the first line in its entry that has
the key before an equals sign. Quoted text that looks like either can only shift the reported line.
"""

import math
import re
import tomllib
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


def load(text: str, limits: Mapping[str, type]) -> dict[str, Any] | Wrong:
    """Parse the file; return its contents or the first error.

    Args:
        text: The text of the file.
        limits: The keys of [limits] with their types, int or float.
    """
    try:
        listed = files.toml_of(text)
    except ValueError as e:
        said, _, place = str(e).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        return Wrong(int(line[1]) if line else text.count("\n") + 1, f"this is not TOML: {said}")
    return next(_wrong(listed, _Lines(text), limits), listed)


def line_of(text: str, key: str) -> int:
    """The number of the line that has this key of the file, or else of the first line."""
    return _Lines(text).of(None, key)


def line_of_problem(text: str, problem_id: str) -> int:
    """The number of the line that has the id of this problem."""
    ids = [problem["id"] for problem in tomllib.loads(text)["problem"]]
    return _Lines(text).of(ids.index(problem_id), "id")


class _Lines:
    """Finds line numbers in the file. An entry is "limits" or the index of a problem."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        headers = [(i, m[1]) for i, line in enumerate(self._lines) if (m := ENTRY.match(line))]
        ends = [i for i, _ in headers[1:]] + [len(self._lines)]
        self._entries: dict[str | int, range] = {}
        for (start, kind), end in zip(headers, ends, strict=True):
            number = sum(isinstance(entry, int) for entry in self._entries)
            self._entries.setdefault("limits" if kind == "limits" else number, range(start, end))

    def of(self, entry: str | int | None, *keys: str) -> int:
        """The line of an entry or, if it contains some of these keys, of the last one found."""
        lines = range(len(self._lines)) if entry is None else self._entries.get(entry, range(1))
        found = lines.start
        for key in filter(None, keys):
            pattern = re.compile(rf"(^|[\s{{,.\[\"'])({re.escape(key)})[\"']?\s*(=|\]|\.)")
            found = next(
                (
                    i
                    for i in range(found, lines.stop)
                    if pattern.search(self._lines[i].split("#")[0])
                ),
                found,
            )
        return found + 1


def _wrong(listed: dict[str, Any], lines: _Lines, limits: Mapping[str, type]) -> Iterator[Wrong]:
    """Yield every error, from the top of the file to the bottom."""
    yield from _names(
        listed,
        ["problem"],
        [*OF_THE_FILE, "limits", "problem"],
        "the file",
        lambda key: lines.of(None, key),
    )
    for key, (expected, holds) in OF_THE_FILE.items():
        if key in listed and not holds(found := listed[key]):
            yield Wrong(lines.of(None, key), f"{key}: expected {expected}; got {_shown(found)}")
    common, problems = listed.get("limits", {}), listed["problem"]
    if not isinstance(common, dict):
        yield Wrong(
            lines.of(None, "limits"), f"limits: expected a table, [limits]; got {_shown(common)}"
        )
        return
    yield from _names(common, [], limits, "[limits]", lambda key: lines.of("limits", key))
    yield from _limits(common, limits, "[limits]", lambda key: lines.of("limits", key))
    if (
        not isinstance(problems, list)
        or not problems
        or not all(isinstance(problem, dict) for problem in problems)
    ):
        yield Wrong(
            lines.of(None, "problem"),
            f"problem: expected entries, [[problem]]; got {_shown(problems)}",
        )
        return
    for number, problem in enumerate(problems):
        yield from _problem(problem, number, lines, limits)
        if (first := [p.get("id") for p in problems].index(problem.get("id"))) < number:
            text = (
                f"problem {problem['id']}: expected a unique id; "
                f"line {lines.of(first, 'id')} has the same id"
            )
            yield Wrong(lines.of(number, "id"), text)


def _problem(
    problem: dict[str, Any], number: int, lines: _Lines, limits: Mapping[str, type]
) -> Iterator[Wrong]:
    name = (
        f"problem {problem['id']}"
        if isinstance(problem.get("id"), str)
        else f"problem number {number + 1}"
    )
    yield from _names(problem, REQUIRED, KEYS, name, lambda key: lines.of(number, key))
    for key, value in problem.items():
        expected, holds = KEYS[key]
        if not holds(value):
            yield Wrong(
                lines.of(number, key), f"{name}: {key}: expected {expected}; got {_shown(value)}"
            )
    yield from _by_definition(problem, name, lambda key: lines.of(number, "forbidden_in", key))
    own = problem.get("limits", {})
    yield from _names(
        own, [], limits, f"{name}: limits", lambda key: lines.of(number, "limits", key)
    )
    yield from _limits(own, limits, f"{name}: limits", lambda key: lines.of(number, "limits", key))


def _by_definition(
    problem: dict[str, Any], name: str, line_of: Callable[[str], int]
) -> Iterator[Wrong]:
    for definition, names in problem.get("forbidden_in", {}).items():
        if definition not in problem["functions"]:
            text = f"{name}: forbidden_in: expected one of its functions; got {_shown(definition)}"
            yield Wrong(line_of(definition), text + did_you_mean(definition, problem["functions"]))
        expected, holds = KEYS["forbidden"]
        if not holds(names):
            yield Wrong(
                line_of(definition),
                f"{name}: forbidden_in: {definition}: expected {expected}; got {_shown(names)}",
            )


def _names(
    table: Mapping[str, Any],
    required: Iterable[str],
    known: Iterable[str],
    where: str,
    line_of: Callable[[str], int],
) -> Iterator[Wrong]:
    """Yield unknown keys, then missing keys.

    A misspelt key is both, and the first error suggests the right name.
    """
    known = list(known)
    for key in table:
        if key not in known:
            meant = did_you_mean(key, known) or f"; the known keys are {', '.join(known)}"
            yield Wrong(line_of(key), f"{where}: {_shown(key)} is not a known key{meant}")
    for key in required:
        if key not in table:
            yield Wrong(line_of(""), f"{where}: {key} is missing")


def _limits(
    table: Mapping[str, Any], limits: Mapping[str, type], where: str, line_of: Callable[[str], int]
) -> Iterator[Wrong]:
    for key, value in table.items():
        whole = limits[key] is int
        if (
            type(value) not in ((int,) if whole else (int, float))
            or not value > 0
            or math.isinf(value)
        ):
            expected = f"a {'whole ' if whole else ''}number above 0"
            yield Wrong(line_of(key), f"{where}: {key}: expected {expected}; got {_shown(value)}")


def _shown(value: Any) -> str:
    """A value, roughly as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _list_of(pattern: re.Pattern[str], at_least: int) -> Callable[[Any], bool]:
    one = _matches(pattern)
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


def _are_packages(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_package, value))


def _are_points(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


# The keys above [limits], which need not be there.
OF_THE_FILE: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "packages": ('a list of packages as pip names them, like "numpy>=1.26"', _are_packages),
    "tools": ('a list of names of programs, like "g++"', _list_of(PROGRAM, 0)),
    "files": ('a list of patterns of files in assignment/, like "*.json"', _list_of(PATTERN, 0)),
    "folders": ('a list of names of folders, like "flight"', _list_of(NAME, 0)),
    "story": ('the name of a module, like "flight.story"', _matches(DOTTED)),
    "preload": ('a list of names of modules, like "einops.layers.torch"', _list_of(DOTTED, 0)),
    "bundle_url": ("an address such as https://course.example/student.zip", _matches(WEB_ADDRESS)),
    "green_may_lose": ("a number of points, 0 or more", _are_points),
}
# The keys of a problem: the expected value in words, and a function that checks a value.
KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "id": ('lower-case letters, digits and underscores, like "lr_schedule"', _matches(ID)),
    "module": ('the name of a module, like "optimizers" or "model.layers"', _matches(DOTTED)),
    "functions": (
        'a list of names of definitions, one or more; of a program, write main(): ["main"]',
        _list_of(NAME, 1),
    ),
    "points": ("a whole number, 1 or more", lambda value: type(value) is int and value >= 1),
    "section": ('chapter and section in quotes, like "8.2" or "8.2.1"', _matches(SECTION)),
    "device": ('"cpu" or "cuda"', lambda value: value in ("cpu", "cuda")),
    "forbidden": ('a list of names, like "torch.optim"', _list_of(DOTTED, 0)),
    "forbidden_in": ("a table of lists of names, one for each definition", _is_table),
    "limits": ("a table", _is_table),
    "program": ("true or false", lambda value: isinstance(value, bool)),
    "declined": ('a table of reasons, like {"unwritten rope" = "…"}', _are_reasons),
}
REQUIRED = ("id", "module", "functions", "points")
