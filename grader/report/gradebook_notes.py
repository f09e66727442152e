"""What a gradebook adds to a result: what changed its points, and what people wrote."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from grader.report.shared_wording import clean, in_points, number
from grader.results.result_records import SubmissionResult
from kit.safe_text import counted


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """Points that a person gave, which replace the grader's."""

    problem: str  # the problem that the points are for; empty for the total
    points: float
    who: str  # who gave them
    reason: str  # why
    at: datetime  # when, with a zone


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wrote about a student's work."""

    id: int  # its number in the gradebook
    problem: str  # the problem that it is about; empty for the whole submission
    text: str  # the comment
    attempt: int  # the number of the attempt that it is about; 0 if the student had none


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    accepted: bool  # whether it was accepted; otherwise it was refused
    points: float | None  # the points for the problem that came with it; None if there were none
    reason: str  # why

    @property
    def word(self) -> str:
        return "accepted" if self.accepted else "refused"


class RegradeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A student's wish that a person look at a test again."""

    id: int  # its number in the gradebook
    student: str  # the student's id
    attempt: int  # the number of the attempt
    problem: str
    test: str
    evidence: str  # how the test had ended when the request was stored
    text: str  # what the student says
    at: str  # when it was stored, in UTC
    answer: Answer | None = None  # the last answer; None while it is open


class FinalGrade(msgspec.Struct, frozen=True, kw_only=True):
    """What reports show of a student's grade."""

    # The points for the gradebook, after late penalty and overrides; None if there are none yet.
    points: float | None = None
    # The most points that the assignment can give; None if only the result has them.
    max_score: float | None = None
    attempt: int = 0  # the number of the attempt that counts, from 1; 0 if there is none
    days_late: int = 0  # days late that are charged, after grace and free late days
    free_days: int = 0  # late days that cost nothing
    penalty: float = 0.0  # the late penalty, in per cent of the score
    overrides: list[Override] = []  # the overrides by people, oldest first
    comments: list[Comment] = []  # the comments by people, oldest first
    requests: list[RegradeRequest] = []  # the student's regrade requests, oldest first
    why: str = ""  # why there is no grade, or what else a person has to look at; empty if nothing


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


def _given(given: Override) -> str:
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


def _comment(one: Comment, counts: int) -> str:
    about = f" on {clean(one.problem, 100)}" if one.problem else ""
    return f"Comment{about}{_attempt(one.attempt, counts)}: {clean(one.text)}"


def _request(one: RegradeRequest, counts: int) -> str:
    about = f"{clean(one.problem, 100)}, {clean(one.test, 150)}{_attempt(one.attempt, counts)}"
    if one.answer is None:
        return f"Regrade request about {about}: not answered yet."
    return f"Regrade request about {about}: {one.answer.word}. {clean(one.answer.reason)}"


def _attempt(number: int, counts: int) -> str:
    return "" if number in (0, counts) else f" (attempt {number})"
