"""Start a course: a small one that is complete, to be changed step by step."""

import re
from pathlib import Path

from grader.base.errors import UsageError
from grader.course.courses import PACKAGE

# The name of the course that is copied, in its texts and in its pyproject.toml.
TITLE, PROJECT = "A tiny course", "tiny-course"


def files(name: str) -> dict[str, bytes]:
    """The files of a new course, by their path in it.

    Args:
        name: The name of the course, which its texts and its pyproject.toml show.
    """
    project = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "course"
    model = _model()
    found = {}
    for path in sorted(model.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8")
            text = text.replace(TITLE, name).replace(PROJECT, project)
            found[path.relative_to(model).as_posix()] = text.encode()
    return found


def write(folder: Path) -> list[str]:
    """Write a new course into a new or empty folder; return the paths of its files.

    Raises:
        UsageError: The folder has something in it, or cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder")
        written = files(folder.resolve().name)
        for path, content in written.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    except OSError as e:
        raise UsageError(f"{folder} cannot be written: {e.strerror}") from None
    return list(written)


def _model() -> Path:
    """The small course: installed with the grader or, in a checkout, among the examples."""
    installed = PACKAGE / "new_course"
    return installed if installed.is_dir() else PACKAGE.parent / "examples" / "tiny_course"
