"""What Gradescope says about a submission in submission_metadata.json."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from grader.classroom.policy import Policy, kept

MOST_BYTES = 2**24


class Assignment(msgspec.Struct, frozen=True):
    """The assignment in Gradescope."""

    due_date: datetime | None = None


class Metadata(msgspec.Struct, frozen=True):
    """The part of the metadata that matters here.

    Attributes:
        created_at: When it was handed in.
        assignment: The assignment.
        previous_submissions: What the same students handed in before.
    """

    created_at: datetime | None = None
    assignment: Assignment = Assignment()
    previous_submissions: list[Any] = []


class Lateness(msgspec.Struct, frozen=True):
    """How late a submission is; see `report.remarks.Standing`.

    Attributes:
        points: The points that count; None if lateness changes nothing, or the grader failed.
        days_late: Days late that are charged.
        penalty: The per cent of the score that they cost.
        overrides: Always empty: no person has changed anything yet.
    """

    points: float | None
    days_late: int
    penalty: float
    overrides: tuple[()] = ()


def read(path: Path) -> Metadata:
    """Read the file. What is missing, or is not as Gradescope writes it, counts as unknown."""
    try:
        with path.open("rb") as f:
            content = f.read(MOST_BYTES)
        return msgspec.json.decode(content, type=Metadata)
    except (OSError, msgspec.DecodeError):
        return Metadata()


def lateness(metadata: Metadata, rules: Policy, score: float | None) -> Lateness | None:
    """What lateness costs by the rules of the course; None if nothing is known, or nothing late.

    The deadline is the course's; without one, that of the assignment in Gradescope.

    Args:
        metadata: The submission's.
        rules: The course's.
        score: What the tests gave; None if the grader failed.
    """
    deadline = rules.deadline("", None) or metadata.assignment.due_date
    if deadline is None or metadata.created_at is None:
        return None
    if deadline.tzinfo is None or metadata.created_at.tzinfo is None:
        return None  # nobody knows how far they are apart
    days = rules.days_late(metadata.created_at, deadline)
    if days <= 0:
        return None
    penalty = rules.penalty(days)
    points = None if score is None else kept(score, penalty)
    return Lateness(points=points, days_late=days, penalty=penalty)
