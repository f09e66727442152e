"""What a gradebook adds to a result: why the points that count differ from the score.

Reports do not import `grader.classroom`. The two protocols list the attributes that reports read
from its records.
"""

from collections.abc import Sequence
from typing import Protocol

from grader.report.wording import clean, in_points, number
from grader.results.records import SubmissionResult


class Given(Protocol):
    """Points that a person gave; a `grader.classroom.records.Override` is one."""

    @property
    def problem(self) -> str:
        """The problem; empty for the total."""

    @property
    def points(self) -> float:
        """The points."""

    @property
    def reason(self) -> str:
        """Why the person gave them."""


class FinalGrade(Protocol):
    """A student's grade; a `grader.classroom.records.Standing` is one."""

    @property
    def points(self) -> float | None:
        """The points for the gradebook; None if there are none yet."""

    @property
    def days_late(self) -> int:
        """Days late that are charged."""

    @property
    def penalty(self) -> float:
        """The late penalty, in per cent of the score."""

    @property
    def overrides(self) -> Sequence[Given]:
        """The overrides by people."""


def remarks(result: SubmissionResult, points: float | None, grade: FinalGrade | None) -> list[str]:
    """What a student should know about the points that count, one plain sentence each."""
    found = []
    if points is None:
        found.append(
            "The grader failed, so there are no points yet. "
            "The fault is ours, and nobody loses a point: this submission will be graded again."
        )
    elif result.has_grader_error:
        found.append(
            "The grader failed on a part of this submission, so a person decided the points."
        )
    if result.pending:
        found.append(
            f"{in_points(result.pending)} pending: tests for another device have not run yet."
        )
    if grade is not None:
        found += [*_lateness(grade), *map(_given, grade.overrides)]
    if points is not None and abs(points - result.score) > 0.005:
        found.append(f"The tests gave {in_points(result.score)}; {in_points(points)} count.")
    return found


def _lateness(grade: FinalGrade) -> list[str]:
    """A sentence about the late penalty; no sentence if no day is charged."""
    if not grade.days_late and not grade.penalty:
        return []
    days = "1 day" if grade.days_late == 1 else f"{grade.days_late} days"
    cost = f"{number(grade.penalty)} % of the score" if grade.penalty else "nothing"
    return [f"Handed in late: {days} after grace and free days. This costs {cost}."]


def _given(given: Given) -> str:
    """A sentence about an override and its reason."""
    what = clean(given.problem) or "the total"
    reason = f": {clean(given.reason)}" if given.reason else ""
    return f"A person set {what} to {in_points(given.points)}{reason}"
