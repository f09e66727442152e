"""How much time all tests of a problem may use together.

Because each problem has its own budget, endless loops in one problem take no time from the others.

Every attempt at a test is charged, in the same budget however often the test runs. A right
submission loses no point if a test is repeated for a reason that is not its own, such as a limit
that the tests before it had almost used up: time that is set aside pays for attempts that do not
count (`Spare`). It is a tenth of the submission's time, so tests that wait and are then repeated
keep the grader waiting for a tenth longer at most. If that is not enough, the tests were repeated
because of what the submission does (its time depends on earlier tests, or it gives two answers),
and its problems pay.
"""

from grader.course.courses import SPARE_SHARE, Course, Problem
from grader.sandbox.meter import Budget, Patience, Spare

# Extra seconds per test for CUDA start-up, not charged to the student.
STARTING_SECONDS = {"cpu": 0, "cuda": 20}


class Budgets:
    """Each problem's share of the submission's time, in proportion to its points.

    The share does not depend on which problems are graded. The ratio of wall time to CPU time is
    the same for all tests together as for one test.

    Attributes:
        patience: How long a test of the submission may do nothing.
    """

    def __init__(self, course: Course, device: str) -> None:
        self._course, self._device = course, device
        self._points = sum(p.points for p in course.problems if device in course.hidden_tests(p))
        self._budgets: dict[str, Budget] = {}
        spare = SPARE_SHARE * course.limits.submission_seconds
        self._spare = Spare(spare, self._wall(spare))
        self.patience = Patience()

    def _wall(self, seconds: float) -> float:
        """The wall time that goes with this CPU time."""
        return seconds * self._course.limits.wall_seconds / self._course.limits.cpu_seconds

    def of(self, problem: Problem) -> Budget:
        """A problem's share, with what its tests have used so far."""
        if problem.id not in self._budgets:
            seconds = self._course.limits.submission_seconds * problem.points / self._points
            self._budgets[problem.id] = Budget(
                seconds,
                self._wall(seconds),
                free_seconds=STARTING_SECONDS[self._device],
                spare=self._spare,
            )
        return self._budgets[problem.id]
