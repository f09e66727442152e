"""The keys of policy.toml for Canvas."""

from pathlib import Path

from grader.base.errors import UsageError
from grader.course.late_policy import PlatformRules, check_number
from grader.course.problems_toml import WEB_ADDRESS
from kit.safe_text import one_line


class CanvasRules(PlatformRules, frozen=True):
    """An assignment in Canvas."""

    canvas_id: int = 0  # the assignment's number; 0 if unknown
    canvas_points: float = 0.0  # the points there to which ours are scaled; 0 if they are not
    canvas_decimals: int = 4  # the decimals to which the points are rounded, a half upwards
    canvas_url: str = ""  # the assignment's address, as the browser shows it, for `grader push`

    def check(self, path: Path) -> None:
        """Check the values; raise a UsageError if one is wrong."""
        check_number(path, self, "canvas_id")
        check_number(path, self, "canvas_points")
        if self.canvas_url and not WEB_ADDRESS.fullmatch(self.canvas_url):
            raise UsageError(
                f"{path}: canvas_url in [policy] is {one_line(self.canvas_url, 100)}; expected the "
                "assignment's address, such as https://canvas.example.edu/courses/12/assignments/345"
            )
        if not 0 <= self.canvas_decimals <= 4:
            raise UsageError(
                f"{path}: canvas_decimals in [policy] is {self.canvas_decimals}; expected 0 to 4"
            )


RULES = CanvasRules
