"""Uses of forbidden library functions, which `check` and `submit` report before the grader does.

The grader reads a submission with the same function, so both find the same lines. No code is run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import forbidden_calls, handing_in


@dataclass(frozen=True)
class ForbiddenUse:
    """A line that uses a name that its problem forbids.

    Attributes:
        problem: The entry of problems.toml.
        definition: The function or class in which the name is forbidden, or "" if it is forbidden
            in the whole problem.
        name: The name that is used, such as "torch.optim.AdamW".
        place: The file and line, such as "assignment/optimizers.py:12".
        certain: Whether the problem, or the definition, would certainly earn nothing. If False,
            only the tests in which this line runs would earn nothing.
    """

    problem: Mapping[str, Any]
    definition: str
    name: str
    place: str
    certain: bool

    def __str__(self) -> str:
        if self.certain and self.definition:
            price = f"the tests of {self.definition} would earn nothing"
        elif self.certain:
            price = f"the problem would earn 0 of {self.problem['points']} points"
        else:
            price = "a test in which that line runs would earn nothing"
        return (
            f"{self.problem['id']}: {self.place} uses {self.name}, "
            f"which you are asked to write yourself; {price}"
        )


def uses_in(sources: Mapping[str, bytes], problems: list[dict[str, Any]]) -> list[ForbiddenUse]:
    """Find each problem's first certain use, or else all its possible uses, in problem order.

    Args:
        sources: Maps paths such as "assignment/linear.py" to contents.
        problems: Entries of problems.toml.
    """
    found = []
    for problem in problems:
        path = handing_in.path_of(problem["module"])
        uses = forbidden_calls.read(sources[path], [problem])["uses"] if path in sources else []
        certain = [use for use in uses if use["certain"]]
        for use in certain[:1] or uses:
            place = f"{path}:{use['line']}"
            found.append(
                ForbiddenUse(problem, use["definition"], use["name"], place, use["certain"])
            )
    return found


def uses_under(root: Path, problems: list[dict[str, Any]]) -> list[ForbiddenUse]:
    """Like `uses_in`, for the files in a folder. A missing file counts as empty."""
    files = {handing_in.path_of(problem["module"]) for problem in problems}
    return uses_in(
        {path: (root / path).read_bytes() for path in files if (root / path).is_file()}, problems
    )
