"""All formats of a report. A new format is a module with `render(reported)`, and a line here."""

from collections.abc import Callable
from dataclasses import dataclass

from grader.report import (
    annotations_report,
    autolab_report,
    comment_report,
    gradescope_report,
    json_report,
    junit_report,
    markdown_report,
    prairielearn_report,
    terminal,
)
from grader.report.reported import Reported


@dataclass(frozen=True)
class Format:
    """A format of a report.

    Attributes:
        render: Makes the text.
        suffix: The suffix of its files.
        file: What `grade` and `merge` say of the option that writes one file; empty without it.
        folder: What `export` says of the option that writes a file per student; empty without it.
        quotes: Whether it quotes the student's code.
    """

    render: Callable[[Reported], str]
    suffix: str = ""
    file: str = ""
    folder: str = ""
    quotes: bool = False


def _html(reported: Reported) -> str:
    """The page. Its libraries take 0.2 s to import, so only a page imports them."""
    from grader.report import html_report

    return html_report.render(reported)


# By name, which is also the name of the option. The commands list the options in this order.
FORMATS = {
    "terminal": Format(terminal.render),
    "json": Format(json_report.render, "json", file="Write the result as JSON."),
    "html": Format(
        _html,
        "html",
        file="Write the report as a web page.",
        folder="A web page for each student.",
        quotes=True,
    ),
    "markdown": Format(
        markdown_report.render,
        "md",
        file='Write the report as Markdown. In a GitHub workflow, use "$GITHUB_STEP_SUMMARY".',
        folder="A report for each student.",
    ),
    "junit": Format(
        junit_report.render,
        "xml",
        file="Write the report as JUnit XML.",
        folder="JUnit XML for each student.",
    ),
    "gradescope": Format(
        gradescope_report.render,
        "json",
        file="Write the report as a results.json.",
        folder="A results.json for each student.",
    ),
    "comment": Format(comment_report.render),
    "annotations": Format(annotations_report.render),
    "prairielearn": Format(prairielearn_report.render),
    "autolab": Format(autolab_report.render),
}
