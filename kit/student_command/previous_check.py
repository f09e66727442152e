"""Remember which problems were done, so that the next run first tests those that changed."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import handing_in

NAME = ".progress.json"


@dataclass(frozen=True)
class Files:
    """The contents of assignment/.

    Attributes:
        hashes: For each module, by its path in assignment/, a hash of its content.
        modules: The paths of the course's modules; all others are the student's own helpers.
    """

    hashes: dict[str, str]
    modules: frozenset[str]

    @classmethod
    def now(cls, root: Path, modules: Iterable[str]) -> "Files":
        """The files as they are now."""
        return cls(_hashes(root), frozenset(map(_path_of, modules)))

    def same(self, root: Path) -> bool:
        """Whether the files are still the same."""
        return _hashes(root) == self.hashes

    def of(self, problem: dict[str, Any]) -> str:
        """A hash of the files behind a problem: its module, and the student's own helpers."""
        others = self.modules - {_path_of(problem["module"])}
        mine = {name: value for name, value in self.hashes.items() if name not in others}
        return hashlib.sha256(json.dumps(mine, sort_keys=True).encode()).hexdigest()


def _path_of(module: str) -> str:
    return handing_in.path_of(module).removeprefix("assignment/")


def _hashes(root: Path) -> dict[str, str]:
    hashes = {}
    for path in sorted((root / "assignment").rglob("*.py")):
        with suppress(OSError):
            name = path.relative_to(root / "assignment").as_posix()
            hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


@dataclass(frozen=True)
class LastTime:
    """The last run's record of each problem.

    It has a hash of its files, whether it was done, and the definition and number of its last hint.
    """

    known: dict[str, dict[str, Any]]

    def status(self, problem: dict[str, Any], files: Files) -> str:
        """Whether a problem is "changed", "open" or "done"; in the first run, all are open."""
        was = self.known.get(problem["id"])
        if was is None:
            return "open"
        if was["files"] != files.of(problem):
            return "changed"
        return "done" if was["done"] else "open"

    def has(self, problem: dict[str, Any], files: Files) -> bool:
        """Whether a problem was tested with these files."""
        return problem["id"] in self.known and self.status(problem, files) != "changed"

    def next_hint(self, problem: dict[str, Any], of: str) -> int:
        """The number of the next hint on a definition: 1, or one more than last time."""
        was = self.known.get(problem["id"], {}).get("hint")
        return was[1] + 1 if isinstance(was, list) and was[0] == of else 1

    def write(
        self,
        root: Path,
        files: Files,
        problems: list[dict[str, Any]],
        done: set[str],
        hinted: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """Record these problems and keep the records of others. Ignore a failure to write."""
        now = {p["id"]: {"files": files.of(p), "done": p["id"] in done} for p in problems}
        for name, was in now.items():
            was["hint"] = (hinted or {}).get(name, self.known.get(name, {}).get("hint"))
        with suppress(OSError):
            (root / NAME).write_text(json.dumps({**self.known, **now}), encoding="utf-8")


def read(root: Path) -> LastTime:
    """The record of the last run; empty if it cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        known = json.loads((root / NAME).read_text(encoding="utf-8"))
        return LastTime(
            {
                name: {"files": was["files"], "done": was["done"], "hint": was.get("hint")}
                for name, was in known.items()
            }
        )
    return LastTime({})
