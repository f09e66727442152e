"""What was done the last time, so that what has changed since then is tested first."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        return cls(_hashes(root), frozenset(f"{module}.py" for module in modules))

    def same(self, root: Path) -> bool:
        """Whether the files are still the same."""
        return _hashes(root) == self.hashes

    def of(self, problem: dict[str, Any]) -> str:
        """A hash of what decides a problem's tests: its module, and the student's own helpers."""
        others = self.modules - {f"{problem['module']}.py"}
        mine = {name: value for name, value in self.hashes.items() if name not in others}
        return hashlib.sha256(json.dumps(mine, sort_keys=True).encode()).hexdigest()


def _hashes(root: Path) -> dict[str, str]:
    hashes = {}
    for path in sorted((root / "assignment").rglob("*.py")):
        with suppress(OSError):
            name = path.relative_to(root / "assignment").as_posix()
            hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


@dataclass(frozen=True)
class LastTime:
    """What was known of each problem: its files, and whether it was done."""

    known: dict[str, dict[str, Any]]

    def status(self, problem: dict[str, Any], files: Files) -> str:
        """Whether a problem is "changed", "open" or "done"; at first, all are open."""
        was = self.known.get(problem["id"])
        if was is None:
            return "open"
        if was["files"] != files.of(problem):
            return "changed"
        return "done" if was["done"] else "open"

    def write(
        self, root: Path, files: Files, problems: list[dict[str, Any]], done: set[str]
    ) -> None:
        """Remember these problems; others stay as they were. A failure does no harm."""
        now = {p["id"]: {"files": files.of(p), "done": p["id"] in done} for p in problems}
        with suppress(OSError):
            (root / NAME).write_text(json.dumps({**self.known, **now}), encoding="utf-8")


def read(root: Path) -> LastTime:
    """What was written the last time; nothing if it cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        known = json.loads((root / NAME).read_text(encoding="utf-8"))
        return LastTime(
            {name: {k: was[k] for k in ("files", "done")} for name, was in known.items()}
        )
    return LastTime({})
