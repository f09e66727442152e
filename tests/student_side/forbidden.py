"""What `check` and `submit` say of code that uses what a problem asks for, before the grader says it.

The grader reads a submission with the same function, so both find the same lines. Nothing is run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.probes import delegation


@dataclass(frozen=True)
class ForbiddenUse:
    """A line that uses what its problem has to do without.

    Attributes:
        problem: The entry of problems.toml.
        definition: The one in which the name is forbidden; "" where the whole problem has to do without it.
        name: What is used, as in "torch.optim.AdamW".
        place: Where, as in "assignment/optimizers.py:12".
        certain: Whether the problem, or the definition, would earn nothing. Otherwise only tests in which the line runs would.
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
        return f"{self.problem['id']}: {self.place} uses {self.name}, which you are asked to write yourself; {price}"


def uses_in(sources: Mapping[str, bytes], problems: list[dict[str, Any]]) -> list[ForbiddenUse]:
    """Each problem's first certain use, or else its possible ones, in the order of the problems.

    Args:
        sources: Path to content, as in "assignment/linear.py".
        problems: Entries of problems.toml.
    """
    found = []
    for problem in problems:
        path = f"assignment/{problem['module']}.py"
        uses = delegation.read(sources[path], [problem])["uses"] if path in sources else []
        certain = [use for use in uses if use["certain"]]
        for use in certain[:1] or uses:
            place = f"{path}:{use['line']}"
            found.append(
                ForbiddenUse(problem, use["definition"], use["name"], place, use["certain"])
            )
    return found


def uses_under(root: Path, problems: list[dict[str, Any]]) -> list[ForbiddenUse]:
    """The same, for the files under a folder; one that cannot be read uses nothing."""
    files = {f"assignment/{problem['module']}.py" for problem in problems}
    return uses_in(
        {path: (root / path).read_bytes() for path in files if (root / path).is_file()}, problems
    )
