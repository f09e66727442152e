"""How much time a problem's tests may use together: endless loops in one problem cost the others nothing."""

from grader.course import Course, Problem
from grader.sandbox.session import Budget

STARTING_SECONDS = {
    "cpu": 0,
    "cuda": 20,
}  # of each test, that starting CUDA may take: no student's time


class Budgets:
    """Each problem's share of the submission's time, by its points; the same whichever problems are graded.

    The clock is as generous to all tests together as it is to one.
    """

    def __init__(self, course: Course, device: str) -> None:
        self._course, self._device = course, device
        self._points = sum(p.points for p in course.problems if device in course.hidden_tests(p))
        self._budgets: dict[str, Budget] = {}

    def of(self, problem: Problem) -> Budget:
        """What is left of a problem's share."""
        if problem.id not in self._budgets:
            limits = self._course.limits
            seconds = limits.submission_seconds * problem.points / self._points
            wall_seconds = seconds * limits.wall_seconds / limits.cpu_seconds
            self._budgets[problem.id] = Budget(
                seconds, wall_seconds, free_seconds=STARTING_SECONDS[self._device]
            )
        return self._budgets[problem.id]
