"""All platforms: Gradescope, and each module of `more/`."""

from pathlib import Path

from grader.base import removable
from grader.gradescope.harness import Platform
from grader.report import gradescope_report

PLATFORMS: dict[str, Platform] = {
    "gradescope": Platform(
        name="Gradescope",
        home=Path("/autograder"),
        submission="submission",
        result="results/results.json",
        render=gradescope_report.render,
        without_points=gradescope_report.without_points,
        nothing_earned=gradescope_report.nothing_earned,
    ),
    **removable.objects("grader.gradescope.more", "PLATFORM"),
}
