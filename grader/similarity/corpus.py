"""Code to compare a class with: former submissions and public repositories, in a folder.

Each folder, archive and .py file in it is one work. A folder that has code itself, because it is a
repository or a single submission, is one work. Links are not followed, and nothing is executed.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from grader.base.errors import SubmissionRefused, UsageError
from grader.base.limited_reading import Readers, Unread
from grader.submission.archives import DAMAGED, entries
from kit.handing_in import MAX_BYTES
from kit.text import one_line

ARCHIVES = (".zip", ".tar.gz", ".tgz")
# Folders of other people's code, and of none.
SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv", "env"}
MAX_FILES = 2_000  # of one work
Read = dict[str, bytes] | str  # the Python files of a work, or why it cannot be read


def works_in(folder: Path) -> list[Path]:
    """The works in a folder, sorted by name.

    Raises:
        UsageError: It cannot be read, or has none.
    """
    try:
        if (folder / ".git").exists() or (folder / "assignment").is_dir():
            return [folder]
        found = [path for path in sorted(folder.iterdir()) if _is_work(path)]
    except OSError as e:
        raise UsageError(f"--against {folder}: it cannot be read: {e.strerror}") from None
    if not found:
        raise UsageError(
            f"--against {folder}: expected a gradebook, or a folder with folders, archives or .py "
            "files, one for each student or repository"
        )
    return found


def _is_work(path: Path) -> bool:
    if path.is_symlink() or path.name.startswith("."):
        return False
    return path.is_dir() or (path.is_file() and path.name.endswith((".py", *ARCHIVES)))


def sources(path: Path, readers: Readers[Path, Read]) -> dict[str, bytes]:
    """The Python files of a work, by path; MAX_FILES and MAX_BYTES of them at most.

    A process with limits opens an archive: one of `readers`, which call `read`.

    Raises:
        SubmissionRefused: It cannot be read.
    """
    if path.is_dir():
        return _sources(path)
    (found,) = readers.each([path])
    if isinstance(found, (str, Unread)):
        raise SubmissionRefused(found if isinstance(found, str) else f"{path} {found.reason}")
    return found


def read(path: Path) -> Read:
    """The Python files of an archive, or why it cannot be read."""
    try:
        return _sources(path)
    except SubmissionRefused as e:
        return str(e)


def _sources(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        with ExitStack() as stack:
            for name, text in _on_disk(path) if path.is_dir() else _in_file(path, stack):
                left -= len(text)
                if left < 0 or len(found) == MAX_FILES:
                    break
                found[name] = text
    except OSError as e:
        raise SubmissionRefused(f"{path} cannot be read: {e.strerror or e}") from None
    except (NotImplementedError, RuntimeError, *DAMAGED) as e:
        raise SubmissionRefused(f"{path} cannot be unpacked: {one_line(str(e), 200)}") from None
    return found


def _on_disk(folder: Path) -> Iterator[tuple[str, bytes]]:
    for inside, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        for name in sorted(names):
            path = Path(inside, name)
            if name.endswith(".py") and path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    yield path.relative_to(folder).as_posix(), file.read(MAX_BYTES)


def _in_file(path: Path, stack: ExitStack) -> Iterator[tuple[str, bytes]]:
    for entry in entries(path, stack):
        if entry.kind == "file" and entry.path.endswith(".py"):
            with entry.open() as file:
                yield entry.path, file.read(MAX_BYTES)
