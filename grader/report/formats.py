"""All formats of a report."""

from grader.report import (
    annotations_report,
    comment_report,
    gradescope_report,
    json_report,
    markdown_report,
    terminal_report,
)
from grader.report.report_contents import Format, Reported


def _html(reported: Reported) -> str:
    """The page. Its libraries take 0.2 s to import, so only a page imports them."""
    from grader.report import html_report

    return html_report.render(reported)


# By name, which is also the name of the option. The commands list the options in this order.
FORMATS = {
    "terminal": Format(terminal_report.render),
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
    "gradescope": Format(
        gradescope_report.render,
        "json",
        file="Write the report as a results.json.",
        folder="A results.json for each student.",
    ),
    "comment": Format(comment_report.render),
    "annotations": Format(annotations_report.render),
}
