"""How much time all tests of a problem may use together.

Because each problem has its own budget, endless loops in one problem take no time from the others.
"""

from grader.course import Course, Problem
from grader.sandbox.session import Budget

# Extra seconds per test for CUDA start-up, not charged to the student.
STARTING_SECONDS = {"cpu": 0, "cuda": 20}


class Budgets:
    """Each problem's share of the submission's time, in proportion to its points.

    The share does not depend on which problems are graded. The ratio of wall time to CPU time is
    the same for all tests together as for one test.
    """

    def __init__(self, course: Course, device: str) -> None:
        self._course, self._device = course, device
        self._points = sum(p.points for p in course.problems if device in course.hidden_tests(p))
        self._budgets: dict[str, Budget] = {}

    def of(self, problem: Problem) -> Budget:
        """A problem's share, with what its tests have used so far."""
        if problem.id not in self._budgets:
            limits = self._course.limits
            seconds = limits.submission_seconds * problem.points / self._points
            wall_seconds = seconds * limits.wall_seconds / limits.cpu_seconds
            self._budgets[problem.id] = Budget(
                seconds, wall_seconds, free_seconds=STARTING_SECONDS[self._device]
            )
        return self._budgets[problem.id]
