"""Start a course: a small one that is complete, to be changed step by step."""

from pathlib import Path

from grader.base import files
from grader.base.errors import UsageError
from grader.course import courses
from grader.course.courses import PACKAGE, files_below
from grader.publish import stub_files


def files_of(name: str, kind: str) -> dict[str, bytes]:
    """The files of a new course, by their path in it.

    Args:
        name: The name of the course, which its texts show.
        kind: "tiny" for a course with torch, "plain" for one in plain Python.
    """
    model, title = _model(kind), f"A {kind} course"
    return {
        path.relative_to(model).as_posix(): path.read_bytes().replace(title.encode(), name.encode())
        for path in files_below(model)
    }


def write(folder: Path, *, plain: bool) -> list[str]:
    """Write a new course into a new or empty folder; return the paths of its files.

    Args:
        plain: Whether the course is one in plain Python, without torch.

    Raises:
        UsageError: The folder has something in it, or cannot be written.
    """
    with files.together():
        files.make_folder(folder)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder")
        new = files_of(folder.resolve().name, "plain" if plain else "tiny")
        for path, content in new.items():
            files.make_folder((folder / path).parent)
            files.write(folder / path, content)
    stub_files.write(courses.load(folder))
    return list(new)


def _model(kind: str) -> Path:
    """The small course: installed with the grader or, in a checkout, among the examples."""
    installed = PACKAGE / "new_course"
    folder = installed if installed.is_dir() else PACKAGE.parent / "examples"
    return folder / f"{kind}_course"
