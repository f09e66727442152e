"""How Autolab runs the grader."""

from pathlib import Path

from grader.gradescope.harness import Platform
from grader.report.more import autolab

PLATFORM = Platform(
    name="Autolab",
    home=Path(),
    submission="handin.zip",
    result="feedback.txt",
    render=autolab.render,
    without_points=autolab.without_points,
    nothing_earned=autolab.nothing_earned,
)
