"""All formats render the same record by functions of one signature."""

import html
import inspect

import pytest

from grader.base.errors import Status
from grader.report import json_report
from grader.report.formats import FORMATS
from grader.report.gradebook_notes import Answer, Comment, RegradeRequest
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from grader.results.result_records import Fact
from tests.grader.report.sample_results import (
    HARMLESS,
    ended,
    every_status,
    hostile_comments,
    result,
    standing,
)


def asked(problem, test, answer=None):
    about = {"id": 1, "student": "ada", "attempt": 2, "problem": problem, "test": test}
    at = "2026-10-01T12:00:00+00:00"
    return RegradeRequest(**about, evidence="failed", text="?", at=at, answer=answer)


RENDER = {name: one.render for name, one in FORMATS.items()}
PLAIN = ("terminal", "json", "gradescope", "annotations")

NOTES = {
    "comments": [
        Comment(id=1, problem="", text="Well done.", attempt=2),
        Comment(id=2, problem="linear", text="Mind the sign.", attempt=1),
    ],
    "requests": [
        asked("linear", "test_b", Answer(accepted=False, points=None, reason="The rule is right.")),
        asked("adamw", "test_g"),
    ],
}


@pytest.mark.parametrize("name", RENDER)
def test_every_format_renders_a_record(name):
    assert 1 == len(inspect.signature(RENDER[name]).parameters)
    text = RENDER[name](Reported(every_status()))
    assert all(problem in text for problem in ("linear", "adamw", "gpu"))


@pytest.mark.parametrize("name", ["terminal", "markdown", "html", "json"])
def test_what_a_passed_test_has_measured_is_said(name):
    """A student who has all points still sees the ratio of the times."""
    said = ended("a", Status.PASSED, facts=[Fact("measured", "0.50 times the reference")])
    record = Reported(result(problem_result("linear", "m", 10, [said])))
    assert "0.50 times the reference" in RENDER[name](record)


@pytest.mark.parametrize("name", RENDER)
def test_every_format_prints_what_people_wrote(name):
    text = RENDER[name](Reported(every_status(), standing(attempt=2, **NOTES)))
    text = " ".join(html.unescape(text).replace("&#95;", "_").replace("\u200b", "").split())
    for sentence in (
        "Comment: Well done.",
        "Comment on linear (attempt 1): Mind the sign.",
        "Regrade request about linear, test_b: refused. The rule is right.",
        "Regrade request about adamw, test_g: not answered yet.",
    ):
        assert sentence in text
    nothing = RENDER[name](Reported(every_status(), standing(attempt=2)))
    assert "Comment" not in nothing
    assert "Regrade" not in nothing
    if name == "json":
        assert json_report.parse(RENDER[name](Reported(every_status(), standing(**NOTES))))


@pytest.mark.parametrize("name", RENDER)
def test_no_text_of_a_person_controls_a_reader(name):
    text = RENDER[name](Reported(every_status(), standing(comments=hostile_comments())))
    allowed = {"\n", "\u200b", *HARMLESS}
    assert {c for c in text if not c.isprintable() and c not in allowed} == set()
    assert "<script>alert" not in text or name in PLAIN
    assert "https://evil" not in text or name != "markdown"


def test_reports_stay_small_with_many_comments():
    many = [Comment(id=1, problem="", text="<&@" * 300, attempt=1)] * 100
    reported = Reported(every_status(), standing(comments=many))
    markdown, page = (RENDER[name](reported) for name in ("markdown", "html"))
    assert len(markdown) < 60_000
    assert "more comments are left out to keep this report short." in markdown
    assert len(page.encode()) < 300_000
    assert "and 70 more" in page
