"""Measure what the tests of a session use, and charge it to the budget of their problem.

Calls to the student's code are charged, both in CPU time and in wall time, whether they count or
are repeated, and so is the removal of what they leave behind. The grader's own work, the sandbox's
start-up and waiting for a busy machine are never charged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from grader.base.errors import TimedOut
from grader.course.courses import Limits
from grader.sandbox import timeout_and_crash
from grader.wire.zygote_messages import Ending

LEAST_PATIENCE = 0.08  # seconds
# After how much wall time of its tests the CPU time of a shared child is looked up again.
LOOK_AFTER_SECONDS = 0.1


@dataclass
class Patience:
    """How long a test may do nothing at all; halved whenever a test of the submission exceeds it.

    A slow test, even on a busy machine, computes or waits for a CPU. A test that sleeps without
    using any CPU time waits for something that never happens.
    """

    seconds: float = 3.0

    def lose(self) -> None:
        """Halve the time, because a test has exceeded it."""
        self.seconds = max(LEAST_PATIENCE, self.seconds / 2)


@dataclass
class Spare:
    """Time for attempts that do not count, because their tests are repeated.

    All problems of a submission share it. An attempt that finds it used up is charged to its
    problem, so that repeating tests takes no time from which nobody is charged.
    """

    cpu_seconds: float
    wall_seconds: float

    def pay(self, *, cpu: float = 0.0, wall: float = 0.0) -> tuple[float, float]:
        """Pay for an attempt as far as possible; return the CPU time and wall time that remain."""
        paid, paid_wall = min(cpu, self.cpu_seconds), min(wall, self.wall_seconds)
        self.cpu_seconds -= paid
        self.wall_seconds -= paid_wall
        return cpu - paid, wall - paid_wall


@dataclass
class Budget:
    """What all tests of a problem may use together, and how much they have used so far."""

    cpu_seconds: float  # CPU time, for all processes of a test together
    wall_seconds: float  # wall time of the calls to the student's code
    free_seconds: float = 0.0  # extra time for each test, for example for CUDA start-up
    # What pays for attempts that do not count.
    spare: Spare = field(default_factory=lambda: Spare(0.0, 0.0))
    cpu_used: float = 0.0
    wall_used: float = 0.0
    slow: str = ""  # where the first test was that ran out of time

    def charge(self, *, cpu: float = 0.0, wall: float = 0.0) -> None:
        """Record what a test, or all tests of a process, have used."""
        self.cpu_used += max(0.0, cpu - self.free_seconds)
        self.wall_used += max(0.0, wall - self.free_seconds)

    def charge_attempt(self, *, cpu: float = 0.0, wall: float = 0.0) -> None:
        """Record what an attempt has used that does not count, because its test is repeated."""
        cpu, wall = self.spare.pay(cpu=max(0.0, cpu), wall=wall)
        self.charge(cpu=cpu, wall=wall)

    def begin_again(self) -> None:
        """Have all tests of the problem repeated: what they have used does not count."""
        self.cpu_used, self.wall_used = self.spare.pay(cpu=self.cpu_used, wall=self.wall_used)
        self.slow = ""

    @property
    def cpu_left(self) -> float:
        """The CPU time that the next test may use."""
        return max(0.0, self.cpu_seconds - self.cpu_used)

    @property
    def wall_left(self) -> float:
        """The wall time that the next test may use."""
        return max(0.0, self.wall_seconds - self.wall_used)


class Meter:
    """The clocks of a session's tests.

    A child may serve several tests. Its CPU time is looked up from time to time, and is known
    exactly at its end.

    Args:
        limits: What a test may use.
        budget: What all tests of the problem may use together; None for no such limit.
    """

    def __init__(self, limits: Limits, budget: Budget | None) -> None:
        self._limits = limits
        self._budget = budget
        self.wall_left = limits.wall_seconds  # the wall time that the running test may still use
        self.wall_is_cut = False  # whether the budget left less wall time than the limits
        self.cpu_limit = limits.cpu_seconds  # the CPU time that the child may use
        self._wall_used = 0.0  # not yet charged
        self._wall_since_look = 0.0  # of the tests, since the child's CPU time was looked up
        self._cpu_before = 0.0  # of the child, when it was looked up

    def begin_child(self) -> Limits:
        """Reset the clock of CPU time; return the limits of a new child."""
        self._cpu_before = self._wall_since_look = 0.0
        return msgspec.structs.replace(self._limits, cpu_seconds=self.cpu_limit)

    def begin_test(self) -> None:
        """Charge the last test, and give the next one its wall time."""
        self.charge_wall()
        self.wall_left = self._limits.wall_seconds
        self.wall_is_cut = False

    @property
    def has_to_look(self) -> bool:
        """Whether the CPU time of a child has to be looked up before the next test begins."""
        return self._wall_since_look >= LOOK_AFTER_SECONDS

    def look(self, cpu_seconds: float | None) -> None:
        """Record the CPU time of the child before the next test; None if it is unknown."""
        if cpu_seconds is not None:
            self._cpu_before = cpu_seconds
        self._wall_since_look = 0.0

    def keep_to_the_budget(self, *, with_new_child: bool) -> None:
        """Reduce the test's time limits to what its problem's budget has left.

        The CPU time of a running child cannot be limited any more.

        Raises:
            TimedOut: No time is left.
        """
        budget = self._budget
        if budget is None:
            return
        if budget.cpu_left <= 0:
            raise timeout_and_crash.too_late_to_begin(budget.slow, cpu_seconds=budget.cpu_seconds)
        if budget.wall_left <= 0:
            raise timeout_and_crash.too_late_to_begin(budget.slow, wall_seconds=budget.wall_seconds)
        if with_new_child:
            left = math.ceil(budget.cpu_left + budget.free_seconds)
            self.cpu_limit = min(self._limits.cpu_seconds, left)
        if budget.wall_left + budget.free_seconds < self.wall_left:
            self.wall_left = budget.wall_left + budget.free_seconds
            self.wall_is_cut = True

    def spend(self, wall_seconds: float) -> None:
        """Count the wall time of a call."""
        self.wall_left -= wall_seconds
        self._wall_used += wall_seconds

    def blame(self, fault: TimedOut) -> None:
        """Note where the running test ran out of time, if it is the first of its problem."""
        if self._budget:
            self._budget.slow = self._budget.slow or fault.where or ""

    def repeat(self) -> None:
        """Charge the running test as an attempt that does not count."""
        if self._budget:
            self._budget.charge_attempt(wall=self._wall_used)
        self._wall_used = 0.0

    def charge_wall(self) -> None:
        """Charge the wall time of the running test."""
        if self._budget:
            self._budget.charge(wall=self._wall_used)
        self._wall_since_look += self._wall_used
        self._wall_used = 0.0

    def at_the_end(self, *, to_repeat: bool) -> Callable[[Ending], None]:
        """A function that charges what is known only after the child's end.

        This is its CPU time, and the time that it took to remove what it left behind: a submission
        could otherwise have the grader wait for ten seconds after each of its tests.

        Args:
            to_repeat: Whether the running test is repeated, so that this attempt does not count.
        """
        budget = self._budget
        most = self._cpu_before if to_repeat else math.inf

        def charge(ending: Ending) -> None:
            if budget:
                used = ending.cpu_seconds_of_all
                budget.charge(cpu=min(used, most))
                budget.charge_attempt(cpu=used - most)
                wall = budget.charge_attempt if to_repeat else budget.charge
                wall(wall=ending.cleaning_seconds)

        return charge
