"""How PrairieLearn runs the grader."""

from pathlib import Path

from grader.gradescope.harness import Platform
from grader.report.more import prairielearn

PLATFORM = Platform(
    name="PrairieLearn",
    home=Path("/grade"),
    submission="student",
    result="results/results.json",
    render=prairielearn.render,
    without_points=prairielearn.without_points,
    nothing_earned=prairielearn.nothing_earned,
)
