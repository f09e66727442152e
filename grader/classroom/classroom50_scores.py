"""A class's grades as overrides in the scores.json of a classroom of Classroom 50.

Classroom 50 collects its scores from releases in the students' repositories. It never changes an
entry of scores.json with `"override": true`. So a course whose hidden tests stay private grades
elsewhere and writes such entries. An override that a teacher set in Classroom 50 is kept.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from grader.base import files
from grader.base.errors import Status, UsageError
from grader.classroom.class_records import Standing, State
from grader.course.removable.classroom50_rules import Classroom50
from grader.report.report_contents import Reported
from grader.report.shared_wording import clean, half_up, in_points, number, whole_parts
from grader.results.result_records import SubmissionResult
from kit.safe_text import one_line

SCHEMA = "classroom50/scores/v1"
MOST_BYTES = 16 * 2**20
OWNER = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9])*")  # a name on GitHub

Scores = dict[str, Any]


@dataclass(frozen=True)
class Overrides:
    scores: Scores  # the content of scores.json
    records: dict[str, Any]  # each graded student's `result/v1`, by the student's id
    notes: list[str]  # sentences about what a person should check


def overrides(
    standings: Sequence[Standing],
    where: Classroom50,
    reported: Callable[[Standing], Reported | None],
    collected: Scores,
    now: datetime,
) -> Overrides:
    """Write each graded student's grade into the collected scores of a classroom; see `read`.

    `now` is the time of a grade whose submission has none.

    Raises:
        UsageError: The assignment is one for groups.
    """
    bucket = collected["assignments"].setdefault(
        where.assignment, {"type": "individual", "entries": []}
    )
    if bucket["type"] != "individual":
        raise UsageError(f"the assignment {where.assignment} is one for groups in Classroom 50")
    found = Overrides(collected, {}, [])
    entries = {one["owner"].casefold(): one for one in bucket["entries"]}
    for one in standings:
        if one.state is not State.GRADED or one.points is None:
            continue
        owner = one.student.id
        if len(owner) > 39 or not OWNER.fullmatch(owner):
            found.notes.append(f"{one_line(owner, 100)} is no name on GitHub and was left out")
            continue
        found.notes.extend(_notes(one))
        new = found.records[owner] = record(where, one, reported(one), now)
        entry = entries.setdefault(owner.casefold(), {"owner": owner, "submissions": []})
        if note := _kept(entry, new):
            found.notes.append(note)
        else:
            entries[owner.casefold()] = _entry(entry, new)
    bucket["entries"] = list(entries.values())
    return found


def _notes(one: Standing) -> list[str]:
    notes = []
    if one.points is not None and one.points > one.max_score:
        notes.append(
            f"{one.student.id} has {one.points:g} points; Classroom 50 takes no more than "
            f"{one.max_score:g}"
        )
    if one.submitted_at is None:
        notes.append(f"{one.student.id}: the time of the submission is unknown, so it is now")
    return notes


def _kept(entry: Scores, new: Scores) -> str:
    """Why an entry is left as it is; empty if it may be replaced."""
    newest = next(iter(entry["submissions"]), None)
    if not entry.get("override") or newest is None or _is_ours(newest):
        return ""
    score = one_line(str(newest.get("score")), 20)
    return (
        f"{new['owner']} keeps the score {score} that was set in Classroom 50; ours is "
        f"{new['score']}"
    )


def _entry(entry: Scores, new: Scores) -> Scores:
    """An entry with our record on top of what was collected."""
    ours = {key: value for key, value in new.items() if key != "assignment"}
    others = [one for one in entry["submissions"] if not _is_ours(one)]
    return {**entry, "override": True, "submissions": [ours, *others]}


def _is_ours(submission: Scores) -> bool:
    return str(submission.get("submission", "")).startswith(TAG)


def text(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read(path: Path | None) -> Scores:
    """The content of a scores.json, or a UsageError; without a file, one without assignments."""
    if path is None:
        return {"schema": SCHEMA, "assignments": {}}
    content = files.read(path, most=MOST_BYTES)
    try:
        tree: Scores = msgspec.json.decode(content)
        known = msgspec.convert(tree, _Scores)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise UsageError(
            f"{path} is not a scores.json of Classroom 50 ({SCHEMA}): {one_line(str(e), 200)}"
        ) from None
    for bucket in known.assignments.values():
        owners = [one.owner.casefold() for one in bucket.entries]
        if len(set(owners)) < len(owners):
            raise UsageError(f"{path} is not a scores.json of Classroom 50: it has an owner twice")
    return tree


class _Entry(msgspec.Struct):
    owner: str
    submissions: list[dict[str, Any]]


class _Bucket(msgspec.Struct):
    type: str
    entries: list[_Entry]


class _Scores(msgspec.Struct):
    """The parts that are used, with the kinds that the schema gives them."""

    schema: Literal["classroom50/scores/v1"]
    assignments: dict[str, _Bucket]


RECORD = "classroom50/result/v1"
# Classroom 50 marks scores that its autograder did not give by "submit/manual-"; this marks ours.
TAG = "submit/manual-grader-"


def record(where: Classroom50, one: Standing, reported: Reported | None, now: datetime) -> Any:
    """The record of a student's grade; the result is None if a person gave points without one."""
    owner, at, top = one.student.id, _in_utc(one.submitted_at or now), half_up(one.max_score)
    name = f"{where.classroom}-{where.assignment}-{owner}".lower()
    # The repository's commits, with the graded one on top.
    commits = f"https://github.com/{where.organization}/{name}/commits?until={at}"
    return {
        "schema": RECORD,
        "classroom": where.classroom,
        "assignment": where.assignment,
        "assignment_type": "individual",
        "owner": owner,
        "submission": f"{TAG}{at.replace(':', '-')}",
        "commit": commits,
        "release": commits,
        "review": commits,
        "datetime": at,
        "score": min(half_up(one.points or 0.0), top),
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


def _in_utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
