"""What a gradebook adds to a result: why the points that count differ from the score, and what
people wrote.

Reports do not import `grader.classroom`. The protocols list the attributes that reports read from
its records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from grader.report.wording import clean, in_points, number
from grader.results.records import SubmissionResult
from kit.text import counted


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


class Said(Protocol):
    """A person's comment; a `grader.classroom.records.Comment` is one."""

    @property
    def problem(self) -> str:
        """The problem; empty for the whole submission."""

    @property
    def text(self) -> str:
        """The comment."""

    @property
    def attempt(self) -> int:
        """The attempt that it is about; 0 if there was none."""


class Decided(Protocol):
    """The answer to a regrade request; a `grader.classroom.records.Answer` is one."""

    @property
    def word(self) -> str:
        """Accepted or refused."""

    @property
    def reason(self) -> str:
        """Why."""


class Asked(Protocol):
    """A regrade request; a `grader.classroom.records.RegradeRequest` is one."""

    @property
    def problem(self) -> str:
        """The problem."""

    @property
    def test(self) -> str:
        """The test."""

    @property
    def attempt(self) -> int:
        """The attempt that it is about."""

    @property
    def answer(self) -> Decided | None:
        """The last answer; None while it is open."""


class FinalGrade(Protocol):
    """A student's grade; a `grader.classroom.records.Standing` is one."""

    @property
    def points(self) -> float | None:
        """The points for the gradebook; None if there are none yet."""

    @property
    def max_score(self) -> float | None:
        """The most points that the assignment can give; None if only the result has them."""

    @property
    def why(self) -> str:
        """Why there is no grade; empty if there is one."""

    @property
    def days_late(self) -> int:
        """Days late that are charged."""

    @property
    def free_days(self) -> int:
        """Late days that cost nothing."""

    @property
    def penalty(self) -> float:
        """The late penalty, in per cent of the score."""

    @property
    def overrides(self) -> Sequence[Given]:
        """The overrides by people."""

    @property
    def comments(self) -> Sequence[Said]:
        """The comments by people."""

    @property
    def requests(self) -> Sequence[Asked]:
        """The student's regrade requests."""

    @property
    def attempt(self) -> int:
        """The attempt that counts."""


def remarks(result: SubmissionResult, points: float | None, grade: FinalGrade | None) -> list[str]:
    """What a student should know about the points that count, one plain sentence each."""
    found = []
    if not result.problems and grade is not None:
        found.append(f"This submission could not be graded: {clean(grade.why)}.")
    elif points is None:
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
    if points is not None and result.problems and abs(points - result.score) > 0.005:
        found.append(f"The tests gave {in_points(result.score)}; {in_points(points)} count.")
    return found


def _lateness(grade: FinalGrade) -> list[str]:
    """A sentence about the late penalty and one about free late days, if there are any."""
    used = counted(grade.free_days, "free late day")
    free = [f"Handed in late: this uses {used}."] if grade.free_days else []
    if not grade.days_late and not grade.penalty:
        return free
    days = counted(grade.days_late, "day")
    cost = f"{number(grade.penalty)} % of the score" if grade.penalty else "nothing"
    return [*free, f"Handed in late: {days} after grace and free days. This costs {cost}."]


def _given(given: Given) -> str:
    """A sentence about an override and its reason."""
    what = clean(given.problem) or "the total"
    reason = f": {clean(given.reason)}" if given.reason else ""
    return f"A person set {what} to {in_points(given.points)}{reason}"


@dataclass(frozen=True)
class Note:
    """A sentence from a person about one problem; about the whole submission if that is empty."""

    problem: str
    text: str


def notes(grade: FinalGrade | None) -> list[Note]:
    """The comments and the answers to regrade requests, one plain sentence each."""
    if grade is None:
        return []
    return [
        *(Note(clean(one.problem), _comment(one, grade.attempt)) for one in grade.comments),
        *(Note(clean(one.problem), _request(one, grade.attempt)) for one in grade.requests),
    ]


def _comment(one: Said, counts: int) -> str:
    about = f" on {clean(one.problem, 100)}" if one.problem else ""
    return f"Comment{about}{_attempt(one.attempt, counts)}: {clean(one.text)}"


def _request(one: Asked, counts: int) -> str:
    about = f"{clean(one.problem, 100)}, {clean(one.test, 150)}{_attempt(one.attempt, counts)}"
    if one.answer is None:
        return f"Regrade request about {about}: not answered yet."
    return f"Regrade request about {about}: {one.answer.word}. {clean(one.answer.reason)}"


def _attempt(number: int, counts: int) -> str:
    """The attempt, if it is not the one that counts."""
    return "" if number in (0, counts) else f" (attempt {number})"
