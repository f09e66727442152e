"""One platform per file: `PLATFORM` describes it, and without the file it is gone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.report.report_contents import Reported


@dataclass(frozen=True)
class Platform:
    """A platform whose containers run the grader, and the files there."""

    name: str  # its name, for people
    home: Path  # the folder of a run
    submission: str  # the submission's file or folder, in `home`
    result: str  # the file to write, in `home`
    render: Callable[[Reported], str]  # the result as text
    # The result if the grader failed, for a text that says why.
    without_points: Callable[[str], str]
    # For a submission that cannot be read: takes why, and the problems that it earns nothing for.
    nothing_earned: Callable[[str, Iterable[str]], str]
