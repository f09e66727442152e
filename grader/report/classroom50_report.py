"""The result as a record of Classroom 50, `classroom50/result/v1` of its "Advanced Autograding".

Classroom 50 knows whole points only. The total is rounded to the nearest whole point, a half up.
The points of the problems are rounded so that they add up to the rounded sum.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from grader.base.errors import Status
from grader.report.reported import Reported
from grader.report.wording import clean, half_up, in_points, number, whole_parts
from grader.results.records import SubmissionResult

SCHEMA = "classroom50/result/v1"
# Classroom 50 marks scores that its autograder did not give by "submit/manual-"; this marks ours.
TAG = "submit/manual-grader-"


@dataclass(frozen=True)
class Repository:
    """A student's repository of an assignment, and when it was handed in."""

    organization: str  # the organization on GitHub
    classroom: str  # the short name of the classroom
    assignment: str  # the short name of the assignment
    owner: str  # the student's name on GitHub
    at: datetime  # when the graded commit was handed in

    @property
    def commits(self) -> str:
        """The address of its commits, with the graded one on top."""
        name = f"{self.classroom}-{self.assignment}-{self.owner}".lower()
        return f"https://github.com/{self.organization}/{name}/commits?until={_time(self.at)}"


def record(repository: Repository, reported: Reported | None, points: float, most: float) -> Any:
    """The record of a student's grade.

    Args:
        repository: The student's repository.
        reported: The result; None if a person gave points without one.
        points: The points that count.
        most: The most points that the assignment can give.
    """
    where, top = repository.commits, half_up(most)
    return {
        "schema": SCHEMA,
        "classroom": repository.classroom,
        "assignment": repository.assignment,
        "assignment_type": "individual",
        "owner": repository.owner,
        "submission": f"{TAG}{_time(repository.at).replace(':', '-')}",
        "commit": where,
        "release": where,
        "review": where,
        "datetime": _time(repository.at),
        "score": min(half_up(points), top),
        "max-score": top,
        "tests": _tests(reported.result) if reported else [],
    }


def _tests(result: SubmissionResult) -> list[dict[str, Any]]:
    """One test per problem, without the problems that wait for another device."""
    problems = [one for one in result.problems if one.status is not Status.DEFERRED]
    scores = whole_parts([one.score for one in problems])
    tops = whole_parts([one.max_score - one.pending for one in problems])
    return [
        {
            "test-name": clean(one.id),
            "passed": one.passed == len(one.counted),
            "score": min(score, top),
            "max-score": top,
            "message": f"{number(one.score)} of {in_points(one.max_score)}, {one.status.words}",
        }
        for one, score, top in zip(problems, scores, tops, strict=True)
    ]


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
