"""Overrides and records for Classroom 50: whole points, nothing lost, hostile names left out."""

import json
import math
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.base.errors import Status, UsageError
from grader.classroom import classroom50_scores
from grader.classroom.class_records import Standing, State, Student
from grader.course.removable.classroom50_rules import Classroom50
from grader.report.report_contents import Reported
from grader.report.shared_wording import half_up, whole_parts
from grader.results.points import problem_result
from tests.grader.report.documented_formats import ClassroomResult, ClassroomScores
from tests.grader.report.sample_results import HOSTILE, ended, every_status, hostile, result

WHERE = Classroom50(organization="cs336-fall", classroom="systems", assignment="primitives")
AT = datetime(2026, 10, 1, 23, 30, 5, tzinfo=timezone(timedelta(hours=-7)))
NOW = datetime(2026, 11, 1, tzinfo=UTC)
EMPTY = {"schema": "classroom50/scores/v1", "assignments": {}}


def graded(who="Ada", points=3.3333, **given):
    fields = {"student": Student(id=who), "state": State.GRADED, "points": points, "score": points}
    return Standing(**{**fields, "max_score": 15.0, "submitted_at": AT, **given})


def made(*standings, collected=EMPTY, found=None):
    """The overrides, checked against the documentation; the argument stays as it is."""
    reported = found and Reported(found)
    made = classroom50_scores.overrides(
        standings, WHERE, lambda _: reported, deepcopy(collected), NOW
    )
    checked = [(made.scores, ClassroomScores)]
    checked += [(record, ClassroomResult) for record in made.records.values()]
    for content, kind in checked:
        msgspec.convert(content, kind)
        assert json.loads(classroom50_scores.text(content)) == content
    return made


def entries(made):
    return made.scores["assignments"]["primitives"]["entries"]


def test_a_grade_becomes_a_record_and_an_override():
    """The submission's time is in UTC; the record in scores.json lacks its assignment."""
    found = made(graded())
    record = found.records["Ada"]
    address = "https://github.com/cs336-fall/systems-primitives-ada/commits"
    assert {
        "schema": "classroom50/result/v1",
        "classroom": "systems",
        "assignment": "primitives",
        "assignment_type": "individual",
        "owner": "Ada",
        "submission": "submit/manual-grader-2026-10-02T06-30-05Z",
        "commit": f"{address}?until=2026-10-02T06:30:05Z",
        "datetime": "2026-10-02T06:30:05Z",
        "score": 3,
        "max-score": 15,
    }.items() <= record.items()
    (entry,) = entries(found)
    assert ("Ada", True) == (entry["owner"], entry["override"])
    assert [{k: v for k, v in record.items() if k != "assignment"}] == entry["submissions"]
    assert [] == found.notes


def test_each_problem_is_a_test_and_the_points_add_up():
    """A test's score never exceeds its maximum, which rounding 2.5 of 2.5 points could do."""
    tests = made(graded(), found=every_status()).records["Ada"]["tests"]
    assert [
        ("linear", False, 3, 10, "3.33 of 10 points, crashed"),
        ("adamw", False, 0, 5, "0 of 5 points, policy"),
    ] == [tuple(test.values()) for test in tests]
    ends = [ended("x", Status.PASSED), *(ended(f"{j}", Status.FAILED) for j in range(2))]
    thirds = [problem_result(f"p{i}", "m", 1, ends) for i in range(6)]
    runs = ([ended("a", Status.FAILED)], [ended("b", Status.PASSED)])
    halves = [problem_result(name, "m", 2.5, run) for name, run in zip("pq", runs, strict=True)]
    for problems, scores in ((thirds, (2, 6)), (halves, (2, 5))):
        tests = made(graded(), found=result(*problems)).records["Ada"]["tests"]
        assert scores == (sum(t["score"] for t in tests), sum(t["max-score"] for t in tests))
        assert all(t["score"] <= t["max-score"] for t in tests)


@pytest.mark.parametrize(
    ("given", "fields", "notes"),
    [
        *(
            ({"points": points}, {"score": score}, [])
            for points, score in ((2.5, 3), (2.4999, 2), (14.5, 15), (0.0, 0))
        ),
        (
            {"points": 20},
            {"score": 15, "max-score": 15},
            ["Ada has 20 points; Classroom 50 takes no more than 15"],
        ),
        (
            {"submitted_at": None},
            {"datetime": "2026-11-01T00:00:00Z"},
            ["Ada: the time of the submission is unknown, so it is now"],
        ),
    ],
    ids=range(6),
)
def test_points_by_hand_are_whole_and_never_exceed_the_maximum(given, fields, notes):
    """They need no result; the time is that of the export if it is unknown."""
    found = made(graded(**given))
    assert found.records["Ada"] == found.records["Ada"] | fields | {"tests": []}
    assert found.notes == notes


@given(st.lists(st.floats(0, 100), max_size=30))
def test_rounded_parts_add_up_and_are_near(parts):
    found = whole_parts(parts)
    assert sum(found) == half_up(math.fsum(parts))
    assert all(-1 < whole - part < 1 + 1e-9 for whole, part in zip(found, parts, strict=True))


def test_a_second_export_changes_nothing():
    first = made(graded(), graded("bob", 7.0))
    assert first.scores == made(graded(), graded("bob", 7.0), collected=first.scores).scores


def test_what_was_collected_stays_below_and_beside():
    """History, other assignments and fields that we do not know survive; our old record goes."""
    collected = deepcopy(made(graded("ada", 1.0)).scores)
    theirs = collected["assignments"]["primitives"]["entries"][0]["submissions"][0] | {
        "submission": "submit/2026-09-30T00-00-00Z-abc1234",
        "late": False,
    }
    collected["assignments"]["primitives"]["entries"][0]["submissions"].append(theirs)
    collected["assignments"]["primitives"]["entries"][0]["hand_added"] = "kept"
    collected["assignments"]["hello"] = {"type": "group", "entries": []}
    found = made(graded("Ada", 4.0), collected=collected)
    (entry,) = entries(found)
    assert [4, 1] == [one["score"] for one in entry["submissions"]]
    kept = (entry["owner"], entry["hand_added"], entry["submissions"][1])
    assert ("ada", "kept", theirs) == kept
    assert {"type": "group", "entries": []} == found.scores["assignments"]["hello"]


def test_an_override_of_a_teacher_is_kept_and_said():
    """Only a person may change what a person decided."""
    collected = deepcopy(made(graded("ada", 1.0)).scores)
    (entry,) = collected["assignments"]["primitives"]["entries"]
    entry["submissions"][0]["submission"] = "submit/manual-2026-10-03T00-00-00Z"
    found = made(graded("ada", 4.0), collected=collected)
    assert collected == found.scores
    assert ["ada keeps the score 1 that was set in Classroom 50; ours is 4"] == found.notes


def test_no_grade_writes_nothing():
    states = [state for state in State if state is not State.GRADED]
    found = made(*(graded(f"s{i}", None, state=state) for i, state in enumerate(states)))
    assert ([], {}) == (entries(found), found.records)


@pytest.mark.parametrize("text", [*HOSTILE, "-ada", "a--b", "a" * 40, "a/b", "../x", "ada\n"])
def test_a_name_that_is_none_on_github_is_left_out_and_said(text):
    found = made(graded(text))
    assert ([], {}) == (entries(found), found.records)
    assert "is no name on GitHub and was left out" in found.notes[0]
    assert len(found.notes[0].splitlines()) == 1


def test_hostile_texts_stay_in_their_fields():
    assert 3 == len(made(graded(), found=hostile()).records["Ada"]["tests"])


def of_owners(*owners, submissions="[]"):
    entries = ", ".join(f'{{"owner": {one}, "submissions": {submissions}}}' for one in owners)
    bucket = f'{{"type": "individual", "entries": [{entries}]}}'
    return f'{{"schema": "classroom50/scores/v1", "assignments": {{"a": {bucket}}}}}'.encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"schema": "classroom50/scores/v2", "assignments": {}}',
        b'{"schema": "classroom50/scores/v1"}',
        b'{"schema": "classroom50/scores/v1", "assignments": {"a": {"type": "individual"}}}',
        of_owners(5),
        of_owners('"ada"', submissions="[5]"),
        of_owners('"ada"', '"Ada"'),
    ],
    ids=range(10),
)
def test_another_file_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "scores.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=r"scores\.json is not (JSON|a scores\.json of Classroom)"):
        classroom50_scores.read(path)


def test_an_assignment_for_groups_is_refused():
    collected = {**EMPTY, "assignments": {"primitives": {"type": "group", "entries": []}}}
    with pytest.raises(UsageError, match="is one for groups"):
        made(graded(), collected=collected)
