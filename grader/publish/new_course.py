"""Start a course: a small one that is complete, to be changed step by step."""

from pathlib import Path

from grader.base import files
from grader.base.errors import UsageError
from grader.course.courses import PACKAGE, files_below

TITLE = "A tiny course"  # of the course that is copied


def files_of(name: str) -> dict[str, bytes]:
    """The files of a new course, by their path in it.

    Args:
        name: The name of the course, which its texts show.
    """
    model = _model()
    return {
        path.relative_to(model).as_posix(): path.read_bytes().replace(TITLE.encode(), name.encode())
        for path in files_below(model)
    }


def write(folder: Path) -> list[str]:
    """Write a new course into a new or empty folder; return the paths of its files.

    Raises:
        UsageError: The folder has something in it, or cannot be written.
    """
    with files.together():
        files.make_folder(folder)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder")
        new = files_of(folder.resolve().name)
        for path, content in new.items():
            files.make_folder((folder / path).parent)
            files.write(folder / path, content)
    return list(new)


def _model() -> Path:
    """The small course: installed with the grader or, in a checkout, among the examples."""
    installed = PACKAGE / "new_course"
    return installed if installed.is_dir() else PACKAGE.parent / "examples" / "tiny_course"
