"""The keys of policy.toml for Canvas."""

from pathlib import Path

from grader.course.late_policy import MOST, PlatformRules, check_address, check_numbers


class CanvasRules(PlatformRules, frozen=True):
    """An assignment in Canvas."""

    canvas_id: int = 0  # the assignment's number; 0 if unknown
    canvas_points: float = 0.0  # the points there to which ours are scaled; 0 if they are not
    canvas_decimals: int = 4  # the decimals to which the points are rounded, a half upwards
    canvas_url: str = ""  # the assignment's address, as the browser shows it, for `grader push`

    def check(self, path: Path) -> None:
        """Check the values; raise a UsageError if one is wrong."""
        most = {"canvas_id": MOST, "canvas_points": MOST, "canvas_decimals": 4}
        check_numbers(path, self, {name: (0, limit) for name, limit in most.items()})
        example = "https://canvas.example.edu/courses/12/assignments/345"
        check_address(path, self, "canvas_url", example)


RULES = CanvasRules
