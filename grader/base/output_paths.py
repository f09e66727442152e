"""Check before anything is written: no output overwrites an input or another output."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.base import files
from grader.base.errors import UsageError

COURSE = "the course's"  # the name of inputs that the command line does not name
# No submission is read from a file with such a name, unless it lies next to the modules.
REPORTS = (".csv", ".html", ".json", ".md", ".txt", ".xml")
SIDECARS = ("-wal", "-shm", ".lock")  # what SQLite and the grader put next to a gradebook


@dataclass(frozen=True)
class Writes:
    """The mark of a parameter that names a file to write."""

    # If the parameter names a folder, the suffix of the files that are written into it.
    suffix: str = ""
    sidecars: bool = False  # whether files with the suffixes SIDECARS are written next to the file


@dataclass(frozen=True)
class Named:
    """A path with the name of its parameter, as in `--json` or `SUBMISSION`."""

    name: str
    path: Path

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


def check(outputs: list[tuple[Named, Writes]], inputs: list[Named], own: Iterable[Path]) -> None:
    """Check at the start that files can be written, and that they overwrite nothing.

    Args:
        outputs: The files and folders to write.
        inputs: The files and folders to read.
        own: The files and folders of the course, which are inputs, too.

    Raises:
        UsageError: An output is an input, lies inside one, or is another output.
        MachineFault: An output cannot be written.
    """
    read = inputs + [Named(COURSE, path) for path in own if path.exists()]
    for output, mark in outputs:
        if mark.suffix:
            files.check_folder(output.path)
        else:
            files.check_writable(output.path)
        for named in read:
            _check_input(output, mark, named)
    for number, (output, mark) in enumerate(outputs):
        for other, its in outputs[:number]:
            _check_outputs(output, mark, other, its)


def _check_input(output: Named, mark: Writes, named: Named) -> None:
    """Refuse an output that is an input, or lies inside one."""
    beside = [Path(f"{named.path}{ending}") for ending in SIDECARS]
    mine = [output.path]
    if mark.sidecars:
        mine += [Path(f"{output.path}{ending}") for ending in SIDECARS]
    if not _is_stream(output.path) and any(
        _is_same(one, other) for one in mine for other in [named.path, *beside]
    ):
        raise UsageError(f"{output} would overwrite {named}: name another file")
    if mark.suffix and _is_same(named.path.parent, output.path) and _has(named.path, mark.suffix):
        raise UsageError(f"{output} may overwrite {named}: name another folder")
    is_course = named.name == COURSE
    may_hold = not is_course and not _may_be_read(output.path)
    if named.path.is_dir() and not may_hold and _is_inside(output.path, named.path):
        raise UsageError(f"{output} is inside {named}: name a place outside")


def _may_be_read(path: Path) -> bool:
    """Whether a file with this name in a folder of inputs could be a part of a submission."""
    return path.suffix not in REPORTS or path.absolute().parent.name == "assignment"


def _check_outputs(output: Named, mark: Writes, other: Named, its: Writes) -> None:
    """Refuse two outputs that are one file, and a file in a folder that gets such files."""
    if _is_stream(output.path) or _is_stream(other.path):
        return  # a terminal or a pipe can receive several texts
    is_same = _is_same(output.path, other.path, case=False)
    if bool(mark.suffix) == bool(its.suffix):
        if is_same and mark.suffix == its.suffix:
            kind = "folder" if mark.suffix else "file"
            lost = "" if mark.suffix else ", which would be overwritten"
            raise UsageError(f"{output} and {other.name} are one {kind}{lost}: name another {kind}")
        return
    folder, file = (output, other) if mark.suffix else (other, output)
    if is_same or _is_inside(folder.path, file.path):
        raise UsageError(
            f"{file} is a file, and {folder.name} writes a folder there: name another place"
        )
    beside = _is_same(file.path.parent, folder.path, case=False)
    if beside and _has(file.path, mark.suffix or its.suffix):
        raise UsageError(f"{file} may be overwritten by {folder}: name another folder")


def _has(path: Path, suffix: str) -> bool:
    return path.suffix.casefold() == f".{suffix}"


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_same(one: Path, other: Path, *, case: bool = True) -> bool:
    """Whether two paths are one file, perhaps by links or hard links.

    With `case`, paths that differ in case are different files if neither exists.
    """
    try:
        return os.path.samefile(one, other)
    except OSError:
        paths = os.path.realpath(one), os.path.realpath(other)
        return paths[0] == paths[1] if case else paths[0].casefold() == paths[1].casefold()


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or something in it, through links too."""
    real, named = Path(os.path.realpath(path)), path.absolute()
    return any(_is_same(one, folder) for one in (real, *real.parents, *named.parents))
