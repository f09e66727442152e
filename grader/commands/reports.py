"""The reports that a command prints and writes."""

from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console

from grader.base import files
from grader.course.courses import Course
from grader.course.policies import Policy
from grader.report.formats import RENDER
from grader.report.remarks import FinalGrade
from grader.report.reported import Reported
from grader.results.records import SubmissionResult
from kit import workflow_commands


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


def write(one: Reported, paths: Mapping[str, Path | None], *, annotate: bool = False) -> None:
    """Write the files, print the report, and exit 3 if the grader failed.

    Args:
        one: What to report.
        paths: A file for each format, or None.
        annotate: Whether to print annotations for a GitHub workflow, too.
    """
    named = {kind: path for kind, path in paths.items() if path}
    with files.together():
        for kind, path in named.items():
            files.write(path, RENDER[kind](one).encode("utf-8", "replace"))
    text = RENDER["terminal"](one)
    if annotate:  # a student's text must not become a command of the workflow
        text = workflow_commands.quoted(text) + RENDER["annotations"](one)
    files.say(text, needed=not named)
    if one.result.has_grader_error:
        raise typer.Exit(3)
