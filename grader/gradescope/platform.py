"""What a platform is that runs the grader in a container of its own: where it puts things."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

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
