"""The platforms that run the grader in a container of theirs: where they put things."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.report import autolab_report, gradescope_report, prairielearn_report
from grader.report.reported import Reported


@dataclass(frozen=True)
class Platform:
    """A platform.

    Attributes:
        name: Its name, for people.
        home: The folder of a run.
        submission: The submission's file or folder, in `home`.
        result: The file to write, in `home`.
        render: The result as text.
        without_points: The result if the grader failed, for a text that says why.
        nothing_earned: The result of a submission that cannot be read, for a text that says why and
            the problems that it earns nothing for.
    """

    name: str
    home: Path
    submission: str
    result: str
    render: Callable[[Reported], str]
    without_points: Callable[[str], str]
    nothing_earned: Callable[[str, Iterable[str]], str]


PLATFORMS = {
    "gradescope": Platform(
        name="Gradescope",
        home=Path("/autograder"),
        submission="submission",
        result="results/results.json",
        render=gradescope_report.render,
        without_points=gradescope_report.without_points,
        nothing_earned=gradescope_report.nothing_earned,
    ),
    "prairielearn": Platform(
        name="PrairieLearn",
        home=Path("/grade"),
        submission="student",
        result="results/results.json",
        render=prairielearn_report.render,
        without_points=prairielearn_report.without_points,
        nothing_earned=prairielearn_report.nothing_earned,
    ),
    "autolab": Platform(
        name="Autolab",
        home=Path(),
        submission="handin.zip",
        result="feedback.txt",
        render=autolab_report.render,
        without_points=autolab_report.without_points,
        nothing_earned=autolab_report.nothing_earned,
    ),
}
