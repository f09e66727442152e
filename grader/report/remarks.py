"""What a gradebook adds to a result: the points that count, and why they differ from the score.

Reports do not import `grader.classroom`. The two protocols list the attributes that reports read
from its records.
"""

from collections.abc import Sequence
from typing import Protocol

from grader.results.records import SubmissionResult
from kit.text import one_line

MAX_TEXT = 1_000  # characters of a text, after its unsafe characters have become escapes


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


class Standing(Protocol):
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


def final_points(result: SubmissionResult, standing: Standing | None) -> float | None:
    """The points that count: the gradebook's or, without a gradebook, the result's score.

    None if the grader failed and nobody has given points by hand.
    """
    if standing is not None and standing.points is not None:
        return standing.points
    return None if result.has_grader_error else result.score


def remarks(result: SubmissionResult, standing: Standing | None) -> list[str]:
    """What a student should know about the points, one plain sentence each."""
    points = final_points(result, standing)
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
    if standing is not None:
        found += [*_lateness(standing), *map(_given, standing.overrides)]
    if points is not None and abs(points - result.score) > 0.005:
        found.append(f"The tests gave {in_points(result.score)}; {in_points(points)} count.")
    return found


def _lateness(standing: Standing) -> list[str]:
    """A sentence about the late penalty; no sentence if no day is charged."""
    if not standing.days_late and not standing.penalty:
        return []
    days = "1 day" if standing.days_late == 1 else f"{standing.days_late} days"
    cost = f"{number(standing.penalty)} % of the score" if standing.penalty else "nothing"
    return [f"Handed in late: {days} after grace and free days. This costs {cost}."]


def _given(given: Given) -> str:
    """A sentence about an override and its reason."""
    what = clean(given.problem) or "the total"
    reason = f": {clean(given.reason)}" if given.reason else ""
    return f"A person set {what} to {in_points(given.points)}{reason}"


def in_points(points: float) -> str:
    """Points as text with their unit, as in `1 point` or `2.5 points`."""
    return "1 point" if number(points) == "1" else f"{number(points)} points"


def number(value: float, decimals: int = 2) -> str:
    """A rounded number without trailing zeros."""
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Untrusted text as one short line in which unsafe characters are shown as escapes."""
    line = one_line(text, limit)
    return line if len(line) <= limit + 1 else line[:limit] + "…"
