"""Gradescope's description of a submission, submission_metadata.json."""

import sys
from datetime import datetime
from pathlib import Path

import msgspec

from grader.base.errors import GraderFault
from grader.course.late_policy import Policy, kept
from grader.report.gradebook_notes import FinalGrade
from kit.safe_text import one_line

MOST_BYTES = 128 * 2**20  # students can make it long: it holds their earlier results


class Assignment(msgspec.Struct, frozen=True):
    due_date: datetime | None = None


class Metadata(msgspec.Struct, frozen=True):
    created_at: datetime | None = None  # when the submission was handed in
    assignment: Assignment = Assignment()


def read(path: Path) -> Metadata:
    """Read the file. If it is missing or not in Gradescope's format, all fields are unknown.

    A file of another format is told on stderr, which the platform shows to the staff.

    Raises:
        GraderFault: It is larger than MOST_BYTES, so nobody knows whether the submission is late.
    """
    try:
        with path.open("rb") as f:
            content = f.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise GraderFault(f"{path.name} is larger than {MOST_BYTES >> 20} MiB")
        return msgspec.json.decode(content, type=Metadata)
    except (OSError, msgspec.DecodeError, RecursionError) as e:
        if path.exists():
            why = one_line(str(e), 200)
            print(f"{path.name} cannot be read, so nobody counts as late: {why}", file=sys.stderr)
        return Metadata()


def lateness(metadata: Metadata, rules: Policy, score: float | None) -> FinalGrade | None:
    """The penalty by the course's deadline, or else Gradescope's; None if nothing is late."""
    deadline = rules.deadline("", None) or metadata.assignment.due_date
    if deadline is None or metadata.created_at is None:
        return None
    if deadline.tzinfo is None or metadata.created_at.tzinfo is None:
        return None  # without time zones, their difference is unknown
    days = rules.days_late(metadata.created_at, deadline)
    if days <= 0:
        return None
    penalty = rules.penalty(days)
    points = None if score is None else kept(score, penalty)
    return FinalGrade(points=points, days_late=days, penalty=penalty)
