"""The reports that a command prints and writes."""

from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console

from grader.base import files
from grader.course import policies
from grader.course.courses import Course
from grader.course.policies import Shows
from grader.report import gradescope_report, json_report, junit_report, markdown_report, terminal
from grader.report.remarks import Standing
from grader.results.records import SubmissionResult


class Reports:
    """The reports of one result: the printed one, and the files named by options.

    Args:
        course: The course that was graded.
        paths: A file for each kind of report: json, html, markdown, junit or gradescope.
    """

    def __init__(self, course: Course, **paths: Path | None) -> None:
        self._course = course
        policy = policies.load(course.policy)
        self._links, self._shows = course.handout_links(policy.handout_url), policy.gradescope
        self._paths = {kind: path for kind, path in paths.items() if path}

    def write(
        self, result: SubmissionResult, sources: Mapping[str, bytes], *, verbose: bool
    ) -> None:
        """Write the files, print the report, and exit 3 if the grader failed.

        Args:
            result: What to report.
            sources: The graded sources, which the page quotes; empty if they are unavailable.
            verbose: Print every reason with all details.
        """
        sections, links = self._course.sections, self._links
        for kind, path in self._paths.items():
            text = rendered(
                kind, result, None, sources, sections=sections, links=links, shows=self._shows
            )
            files.write(path, text.encode("utf-8", "replace"))
        console = Console(highlight=False)
        text = terminal.render(
            result, sections=sections, links=links, verbose=verbose, console=console
        )
        files.say(text, needed=not self._paths)
        if result.has_grader_error:
            raise typer.Exit(3)


def rendered(
    kind: str,
    result: SubmissionResult,
    standing: Standing | None,
    sources: Mapping[str, bytes],
    *,
    sections: Mapping[str, str],
    links: Mapping[str, str],
    shows: Shows,
) -> str:
    """The text of the report that the option `--kind` names.

    Args:
        kind: json, html, markdown, junit or gradescope.
        result: What to report.
        standing: The student's grade in a class, if there is one.
        sources: The graded sources, which the page quotes.
        sections: The handout's section of each problem.
        links: The handout's address of each problem.
        shows: What Gradescope shows to students.
    """
    if kind == "html":
        from grader.report import html_report

        return html_report.render(result, standing, sources=sources, sections=sections, links=links)
    if kind == "markdown":
        return markdown_report.render(result, standing, sections=sections, links=links)
    if kind == "gradescope":
        return gradescope_report.render(result, standing, shows)
    return junit_report.render(result) if kind == "junit" else json_report.render(result)
