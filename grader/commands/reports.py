"""The reports that a command prints and writes, and its options for them."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from grader.base import files
from grader.base.outputs import Writes
from grader.course.courses import Course
from grader.course.policies import Policy
from grader.report.formats import FORMATS
from grader.report.remarks import FinalGrade
from grader.report.reported import Reported
from grader.results.records import SubmissionResult
from kit import workflow_commands

Paths = Mapping[str, Path | None]  # by format
Command = Callable[..., None]


def to_files(command: Command) -> Command:
    """Replace a command's parameter `paths` by an option for each format that can be a file."""
    return _with_options(
        command, {name: (one.file, "FILE", Writes()) for name, one in FORMATS.items() if one.file}
    )


def to_folders(command: Command) -> Command:
    """Replace `paths` by an option for each format that can be written for each student."""
    offered = {name: one for name, one in FORMATS.items() if one.folder}
    return _with_options(
        command, {name: (one.folder, "DIR", Writes(one.suffix)) for name, one in offered.items()}
    )


def _with_options(command: Command, offered: Mapping[str, tuple[str, str, Writes]]) -> Command:
    """Give a command these options: the help, what it names, and the mark of each, by name."""

    @functools.wraps(command)
    def with_paths(**values: Any) -> None:
        command(paths={name: values.pop(name) for name in offered}, **values)

    parameters = []
    for one in inspect.signature(command).parameters.values():
        parameters += [one] if one.name != "paths" else [
            one.replace(
                name=name,
                default=None,
                annotation=Annotated[
                    Path | None, typer.Option(f"--{name}", metavar=named, help=text), mark
                ],
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
    """Write the files, print the report, and exit 3 if the grader failed.

    Args:
        one: What to report.
        paths: A file for each format, or None.
        annotate: Whether to print annotations for a GitHub workflow, too.
    """
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
