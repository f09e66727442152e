"""Which files a command writes: none of them overwrites an input or another output.

A parameter of a command that names a file or folder to write has the mark `Writes` in its
annotation. Every other path is an input, and so are the course's own files. `App` checks each
command's paths before the command runs, so a new option needs nothing but its annotation.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from grader import course as courses
from grader import files
from grader.errors import CourseFault, UsageError
from grader.printable import one_line

COURSE = "the course's"  # the name of inputs that the command line does not name
# No submission is read from a file with such a name, unless it lies next to the modules.
REPORTS = (".csv", ".html", ".json", ".md", ".txt", ".xml")
SIDECARS = ("-wal", "-shm", ".lock")  # what SQLite and the grader put next to a gradebook


@dataclass(frozen=True)
class Writes:
    """The mark of a parameter that names a file to write.

    Attributes:
        suffix: If the parameter names a folder, the suffix of the files that are written into it.
        sidecars: Whether files with the suffixes SIDECARS are written next to the file.
    """

    suffix: str = ""
    sidecars: bool = False


@dataclass(frozen=True)
class Holds:
    """The mark of a folder that is read, in which the command may also write new files."""


@dataclass(frozen=True)
class Named:
    """A path with the name of its parameter, as in `--json` or `SUBMISSION`."""

    name: str
    path: Path

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


class App(typer.Typer):
    """The commands, each of which checks its paths before it runs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._texts: set[str] = set()  # the options whose value is a text, which may be empty

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Add a function as a command, like `typer.Typer.command`."""
        add = super().command(*args, **options)

        def added(function: Callable[..., None]) -> Callable[..., None]:
            parameters = _parameters(function)
            for one in parameters:
                if one.takes_text:
                    self._texts |= set(one.options)

            @functools.wraps(function)
            def checked(**values: Any) -> None:
                _check(parameters, values)
                with _faults_of(next(map(values.get, _course_keys(parameters)), None)):
                    function(**values)

            add(checked)
            return function

        return added

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the command line."""
        self._refuse_empty(sys.argv[1:])
        return super().__call__(*args, **options)

    def _refuse_empty(self, arguments: list[str]) -> None:
        """Refuse an empty path: Python would take it for the current folder."""
        for before, argument in zip(["", *arguments], arguments, strict=False):
            option, equals, value = argument.partition("=")
            is_empty = equals and not value and option.startswith("--")
            named = option if is_empty else before if before.startswith("--") else "an argument"
            if (not argument or is_empty) and named not in self._texts:
                raise UsageError(f"{named} is empty: is a variable of the shell not set?")


# --- the parameters of a command ------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """A parameter of a command, as its annotation describes it.

    Attributes:
        key: Its name in Python.
        name: Its name on the command line, as in `--json` or `SUBMISSION`.
        options: The names of the option; empty for an argument.
        kind: The type of its value, as in `Path | None`.
        marks: Its marks.
    """

    key: str
    name: str
    options: tuple[str, ...]
    kind: Any
    marks: tuple[object, ...]

    @property
    def writes(self) -> Writes | None:
        """The mark of an output; None for an input."""
        return next((mark for mark in self.marks if isinstance(mark, Writes)), None)

    @property
    def is_path(self) -> bool:
        """Whether it names a file or folder."""
        return Path in (self.kind, *get_args(self.kind))

    @property
    def takes_text(self) -> bool:
        """Whether its value is any text."""
        return self.kind is str


def _parameters(function: Callable[..., object]) -> list[Parameter]:
    return [
        _described(key, parameter.annotation)
        for key, parameter in inspect.signature(function).parameters.items()
    ]


def _described(key: str, annotation: Any) -> Parameter:
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    of_typer = next((mark for mark in marks if isinstance(mark, OptionInfo | ArgumentInfo)), None)
    options: tuple[str, ...] = ()
    if isinstance(of_typer, OptionInfo):
        # In an annotation, Typer keeps the first name of an option in `default`.
        written = [str(one) for one in (of_typer.default, *(of_typer.param_decls or ()))]
        options = tuple(one for one in written if one.startswith("--"))
        options = options or (f"--{key.replace('_', '-')}",)
    name = options[0] if options else (of_typer and of_typer.metavar) or key.upper()
    return Parameter(key, name, options, kind, tuple(marks))


def _course_keys(parameters: Iterable[Parameter]) -> list[str]:
    return [one.key for one in parameters if one.name == "--course"]


@contextmanager
def _faults_of(root: Path | None) -> Iterator[None]:
    """Report a file that the course lacks as a fault of the course.

    Raises:
        CourseFault: A file of the course in this folder cannot be read.
    """
    try:
        yield
    except OSError as e:
        path = Path(e.filename) if isinstance(e.filename, str) else Path()
        if not any(path.is_relative_to(one) for one in courses.own_files(root)):
            raise
        raise CourseFault(f"{path}, which the course needs: {e.strerror}") from None


# --- the check ------------------------------------------------------------------------------------


def _check(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> None:
    given = [
        (one, Named(one.name, values[one.key]))
        for one in parameters
        if one.is_path and values.get(one.key) is not None
    ]
    for _, named in given:
        _refuse_impossible(named)
    root = next((named.path for _, named in given if named.name == "--course"), None)
    inputs = [
        (named, any(isinstance(mark, Holds) for mark in one.marks))
        for one, named in given
        if one.writes is None and named.name != "--course"
    ]
    outputs = [(named, one.writes) for one, named in given if one.writes]
    if outputs:
        check(outputs, inputs, root)


def _refuse_impossible(named: Named) -> None:
    """Refuse a path that no file can have, such as one with a name of 300 characters."""
    try:
        named.path.exists()
    except OSError as e:
        raise UsageError(f"{one_line(str(named), 300)} cannot be used: {e.strerror}") from None


def check(
    outputs: list[tuple[Named, Writes]], inputs: list[tuple[Named, bool]], root: Path | None
) -> None:
    """Check at the start that files can be written, and that they overwrite nothing.

    Args:
        outputs: The files and folders to write.
        inputs: The files and folders to read, and whether a folder may also get new files.
        root: The folder of the course; None for the course that comes with the grader.

    Raises:
        UsageError: An output is an input, lies inside one, or is another output.
        MachineFault: An output cannot be written.
    """
    given = [*filter(Path.exists, courses.own_files(root)), courses.PACKAGE]
    read = inputs + [(Named(COURSE, path), False) for path in given]
    for output, mark in outputs:
        if mark.suffix:
            files.check_folder(output.path)
        else:
            files.check_writable(output.path)
        for named, holds in read:
            _check_input(output, mark, named, holds=holds)
    for number, (output, mark) in enumerate(outputs):
        for other, its in outputs[:number]:
            _check_outputs(output, mark, other, its)


def _check_input(output: Named, mark: Writes, named: Named, *, holds: bool) -> None:
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
    may_hold = holds or (not is_course and not _may_be_read(output.path))
    if named.path.is_dir() and not may_hold and _is_inside(output.path, named.path):
        raise UsageError(f"{output} is inside {named}: name a place outside")


def _may_be_read(path: Path) -> bool:
    """Whether a file with this name in a folder of inputs could be a part of a submission."""
    return path.suffix not in REPORTS or path.absolute().parent.name == "assignment"


def _check_outputs(output: Named, mark: Writes, other: Named, its: Writes) -> None:
    """Refuse two outputs that are one file, and a file in a folder that gets such files."""
    if _is_stream(output.path) or _is_stream(other.path):
        return  # a terminal or a pipe can receive several texts
    if not mark.suffix and not its.suffix and _is_same(output.path, other.path, case=False):
        raise UsageError(
            f"{output} and {other.name} are one file, which would be overwritten: name another file"
        )
    if mark.suffix and mark.suffix == its.suffix and _is_same(output.path, other.path, case=False):
        raise UsageError(f"{output} and {other.name} are one folder: name another folder")
    for folder, file, suffix in ((output, other, mark.suffix), (other, output, its.suffix)):
        if (
            suffix
            and _is_same(file.path.parent, folder.path, case=False)
            and _has(file.path, suffix)
        ):
            raise UsageError(f"{file} may be overwritten by {folder}: name another folder")


def _has(path: Path, suffix: str) -> bool:
    return path.suffix.casefold() == f".{suffix}"


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_same(one: Path, other: Path, *, case: bool = True) -> bool:
    """Whether two paths are one file, perhaps by links or hard links.

    Args:
        one: The first path.
        other: The second path.
        case: Whether paths that differ in case are different files if neither exists.
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
