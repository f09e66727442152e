"""All formats of a report."""

from collections.abc import Callable

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


def _html(reported: Reported) -> str:
    """The page. Its libraries take 0.2 s to import, so only a page imports them."""
    from grader.report import html_report

    return html_report.render(reported)


RENDER: dict[str, Callable[[Reported], str]] = {
    "terminal": terminal.render,
    "json": json_report.render,
    "html": _html,
    "markdown": markdown_report.render,
    "junit": junit_report.render,
    "gradescope": gradescope_report.render,
    "comment": comment_report.render,
    "annotations": annotations_report.render,
    "prairielearn": prairielearn_report.render,
    "autolab": autolab_report.render,
}
