"""Gradescope's metadata: lateness follows the course's rules, and a broken file does no harm."""

import json
from datetime import datetime

import pytest

from grader.course.policies import Policy
from grader.gradescope import submission_metadata
from grader.gradescope.submission_metadata import Metadata

WRITTEN = {
    "created_at": "2026-10-05T09:30:11.123456-07:00",
    "assignment": {"due_date": "2026-10-03T23:59:00.000000-07:00", "title": "Homework 2"},
    "users": [{"email": "ada@example.edu", "id": 1, "name": "Ada"}],
    "previous_submissions": [
        {"score": 1.0, "results": {}},
        {"score": 0.0, "autograder_error": True, "results": {}},
        {"score": 2.0, "autograder_error": False, "results": {}},
    ],
}
LATE = Policy(per_cent_a_day=10)


@pytest.fixture
def written(tmp_path):

    def write(content):
        path = tmp_path / "submission_metadata.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def test_what_gradescope_writes_is_read(written):
    found = submission_metadata.read(written(WRITTEN))
    assert datetime.fromisoformat(WRITTEN["created_at"]) == found.created_at
    assert 3 == found.attempt  # the run that failed was no attempt
    late = submission_metadata.lateness(found, LATE, 50.0)
    assert (2, 20.0, 40.0) == (late.days_late, late.penalty, late.points)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"created_at": "yesterday"}', {"assignment": None}, b"{}"],
)
def test_what_is_missing_or_broken_costs_nothing(written, content, tmp_path):
    """Without valid metadata, no lateness is computed."""
    for path in (written(content), tmp_path / "nowhere"):
        found = submission_metadata.read(path)
        assert submission_metadata.lateness(found, LATE, 50.0) is None


def test_metadata_that_cannot_be_read_is_told(written, capsys, tmp_path):
    """Nobody counts as late then, and the staff has to know. Other platforms have no such file."""
    submission_metadata.read(written(b"\xff"))
    assert "cannot be read, so nobody counts as late: " in capsys.readouterr().err
    submission_metadata.read(tmp_path / "nowhere")
    assert capsys.readouterr().err == ""


def test_the_courses_own_deadline_comes_first(written):
    """Without a time zone in the submission time, no lateness is computed."""
    found = submission_metadata.read(written(WRITTEN))
    deadlines = {"default": datetime.fromisoformat("2026-10-05T00:00:00-07:00")}
    later = Policy(per_cent_a_day=10, deadlines=deadlines)
    assert 45.0 == submission_metadata.lateness(found, later, 50.0).points
    assert submission_metadata.lateness(found, Policy(grace_minutes=3000), 50.0) is None
    without_zone = Metadata(created_at=datetime(2026, 10, 5))
    assert submission_metadata.lateness(without_zone, later, 50.0) is None
    assert submission_metadata.lateness(found, later, None).points is None
