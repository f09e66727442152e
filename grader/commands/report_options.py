"""The reports that a command prints and writes, and its options for them."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from grader.base import files
from grader.base.output_paths import Writes
from grader.commands.shared_options import option
from grader.course.courses import Course
from grader.course.late_policy import Policy
from grader.report.formats import FORMATS
from grader.report.gradebook_notes import FinalGrade
from grader.report.report_contents import Reported
from grader.results.result_records import SubmissionResult
from kit import workflow_commands

if TYPE_CHECKING:
    from grader.classroom.class_records import Standing
    from grader.classroom.standings import Class

Paths = Mapping[str, Path | None]  # by format
Command = Callable[..., None]
# The help, what it names, and the mark of a file that it writes; None for one that is read.
Option = tuple[str, str, Writes | None]


@dataclass(frozen=True)
class Export:
    """What `grader export` writes for another program."""

    options: Mapping[str, Option]  # the options, by name
    # Writes the files that these options name, perhaps none; returns what a person should check.
    write: "Callable[[Class, list[Standing], Paths], Iterable[str]]"


def to_files(command: Command) -> Command:
    """Replace a command's parameter `paths` by an option for each format that can be a file."""
    return _with_options(
        command, {name: (one.file, "FILE", Writes()) for name, one in FORMATS.items() if one.file}
    )


def to_folders(exports: Mapping[str, Export]) -> Callable[[Command], Command]:
    """Replace `paths` by the options of these exports, and of each format for each student."""
    offered: dict[str, Option] = {}
    for export in exports.values():
        offered |= export.options
    for name, one in FORMATS.items():
        if one.folder:
            offered[name] = (one.folder, "DIR", Writes(one.suffix))
    return functools.partial(_with_options, offered=offered)


def _with_options(command: Command, offered: Mapping[str, Option]) -> Command:
    keys = {name: name.replace("-", "_") for name in offered}

    @functools.wraps(command)
    def with_paths(**values: Any) -> None:
        command(paths={name: values.pop(key) for name, key in keys.items()}, **values)

    parameters = []
    for one in inspect.signature(command).parameters.values():
        parameters += [one] if one.name != "paths" else [
            one.replace(
                name=keys[name],
                default=None,
                annotation=Annotated[Path | None, option(f"--{name} {named}", text), mark],
            )
            for name, (text, named, mark) in offered.items()
        ]  # fmt: skip
    with_paths.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_paths.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_paths


def reported(
    course: Course,
    rules: Policy,
    result: SubmissionResult,
    grade: FinalGrade | None = None,
    *,
    sources: Mapping[str, bytes] | None = None,
    verbose: bool = False,
) -> Reported:
    """A result with what the course and its rules add to a report; see `Reported`."""
    return Reported(
        result,
        grade,
        sources=sources or {},
        sections=course.sections,
        links=course.handout_links(rules.handout_url),
        shows=rules.gradescope,
        verbose=verbose,
        console=Console(highlight=False),
    )


def write(one: Reported, paths: Paths, *, annotate: bool = False) -> None:
    """Write files, print the report and perhaps annotations; exit with 3 if the grader failed."""
    named = {kind: path for kind, path in paths.items() if path}
    with files.together():
        for kind, path in named.items():
            files.write(path, FORMATS[kind].render(one).encode("utf-8", "replace"))
    text = FORMATS["terminal"].render(one)
    if annotate:  # a student's text must not become a command of the workflow
        text = workflow_commands.quoted(text) + FORMATS["annotations"].render(one)
    files.say(text, needed=not named)
    if one.result.has_grader_error:
        raise typer.Exit(3)
