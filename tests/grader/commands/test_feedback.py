"""Comments and regrade requests: what the commands store, list and refuse."""

import shutil

import pytest

from grader.base.errors import Status
from grader.classroom import database, gradebook
from tests.grader.in_this_process import PROBLEM, hand_in, new_book, older
from tests.grader.report.samples import HOSTILE

TEST = ("--problem", PROBLEM, "--test", "test_steps")


@pytest.fixture(scope="module")
def graded(today, tmp_path_factory):
    """A gradebook in which Zoe's only test failed and Bob's passed."""
    path = tmp_path_factory.mktemp("graded") / "class.sqlite"
    with new_book(path, today) as opened:
        hand_in(opened, "zoe", "x = 1", setup_1=Status.FAILED)
        hand_in(opened, "bob", "x = 2", setup_1=Status.PASSED)
    return path


@pytest.fixture
def book(graded, tmp_path, monkeypatch):
    """A copy of that gradebook, which one person uses."""
    monkeypatch.setattr(database, "user", lambda: "ta7")
    monkeypatch.setattr(database, "now", lambda: "2026-10-05T10:00:00+00:00")
    return shutil.copy(graded, tmp_path / "class.sqlite")


@pytest.fixture
def shown(book, typed):
    """What `grader show` prints about a student."""
    return lambda student: typed("show", student, "--gradebook", book)[1]


def test_a_comment_is_in_the_reports_and_can_be_used_again(book, typed, shown, tmp_path):
    gradebook_of = ("--gradebook", book)
    first = ("comment", "zoe", *gradebook_of, "--text", "Mind  the\nsign.", "--name", "sign")
    told = "comment 1 is in the reports of zoe\n"
    assert typed(*first, "--problem", PROBLEM) == (0, told, "")
    assert typed("comment", "bob", *gradebook_of, "--again", "sign")[0] == 0
    code, _, said = typed("comment", "bob", *gradebook_of, "--again", "sing")
    assert (code, said) == (2, "grader: --again sing: no such comment; did you mean sign?")
    assert "2026-10-05T10:00:00+00:00 ta7: comment 1 on adamw: Mind the sign." in shown("zoe")
    assert "Comment on adamw: Mind the sign." in shown("zoe")
    typed("export", book, "--html", tmp_path / "pages", "--junit", tmp_path / "xml")
    assert "<li>Comment: Mind the sign.</li>" in (tmp_path / "pages" / "bob.html").read_text()
    assert "Comment on adamw: Mind the sign." in (tmp_path / "xml" / "zoe.xml").read_text()


def test_a_withdrawn_comment_is_in_no_report_but_in_the_history(book, typed, shown):
    gradebook_of = ("--gradebook", book)
    typed("comment", "zoe", *gradebook_of, "--text", "Copied?")
    assert typed("comment", "bob", *gradebook_of, "--remove", 1)[0] == 2
    assert typed("comment", "zoe", *gradebook_of, "--remove", 1)[0] == 0
    assert "ta7: comment 1: Copied?" in shown("zoe")
    assert "ta7: comment 1 withdrawn" in shown("zoe")
    assert "Comment: Copied?" not in shown("zoe")
    assert typed("comment", "zoe", *gradebook_of, "--remove", 1)[0] == 2


def test_a_comment_names_its_attempt_once_another_one_counts(book, typed, shown):
    typed("comment", "zoe", "--gradebook", book, "--text", "Almost.")
    with gradebook.writing(book) as opened:
        hand_in(opened, "zoe", "x = 3", None, setup_1=Status.PASSED)  # without a time: the first
    assert "Comment: Almost." in shown("zoe")
    with gradebook.writing(book) as opened:
        attempt = opened.attempts.all("zoe")[0]
        opened.feedback.comment("zoe", "Good.", attempt=attempt.id, name="")
    assert "Comment (attempt 1): Good." in shown("zoe")


def test_a_request_is_listed_until_it_is_answered(book, typed, shown):
    """It keeps how the test ended, and the answer changes the points."""
    code, said, _ = typed("request", "zoe", "--gradebook", book, *TEST, "--text", "It works.")
    about = "zoe, attempt 1: adamw, test_steps (failed: x)"
    assert (code, said) == (0, f"regrade request 1: {about}\n")
    listed = typed("status", book)[1]
    assert "regrade requests: 1 open, 0 answered" in listed
    assert f"  1  {about}: It works." in listed
    assert "Regrade request about adamw, test_steps: not answered yet." in shown("zoe")
    answer = ("answer", 1, "--gradebook", book, "--reason", "A typo of ours.")
    assert "adamw gives at most 5" in typed(*answer, "--accept", "--points", 6)[2]
    assert "zoe: 5.00 of 7" in typed(*answer, "--accept", "--points", 5)[1]
    listed = typed("status", book)[1]
    assert "regrade requests: 0 open, 1 answered" in listed
    assert "It works." not in listed
    assert "It works.  accepted" in typed("status", book, "--verbose")[1]
    said = shown("zoe")
    assert "ta7: regrade request 1 about adamw, test_steps (failed: x): It works." in said
    assert "ta7: regrade request 1 accepted with 5 points (A typo of ours.)" in said
    assert "ta7: 5 points for adamw (regrade request 1: A typo of ours.)" in said
    assert "Regrade request about adamw, test_steps: accepted. A typo of ours." in said


def test_the_last_answer_counts(book, typed, shown):
    """A refusal takes back the points of an answer, and no others."""
    typed("request", "zoe", "--gradebook", book, *TEST, "--text", "It works.")
    answer = ("answer", 1, "--gradebook", book, "--reason")
    assert "zoe: 0.00 of 7" in typed(*answer, "The rule is right.", "--refuse")[1]
    assert "request about adamw, test_steps: refused. The rule is right." in shown("zoe")
    said = typed(*answer, "The test was wrong.", "--accept")[1]
    assert "zoe: 0.00 of 7\nno points changed: correct the test and run `grader regrade`" in said
    assert "test_steps: accepted. The test was wrong." in shown("zoe")
    assert "zoe: 5.00 of 7" in typed(*answer, "A typo.", "--accept", "--points", 5)[1]
    assert "zoe: 0.00 of 7\n" in typed(*answer, "It was none.", "--refuse")[1]
    assert "override for adamw withdrawn (regrade request 1: It was none.)" in shown("zoe")
    typed(*answer, "A typo.", "--accept", "--points", 5)
    override = ("override", "zoe", "--gradebook", book, "--problem", "adamw", "--reason", "oral")
    typed(*override, "--points", 4)
    assert "zoe: 4.00 of 7" in typed(*answer, "It was none.", "--refuse")[1]
    typed("request", "zoe", "--gradebook", book, *TEST, "--text", "Once more.")
    typed("answer", 2, "--gradebook", book, "--reason", "Now.", "--accept", "--points", 3)
    assert "zoe: 3.00 of 7" in typed(*answer, "It was none.", "--refuse")[1]


def test_a_regrade_keeps_a_request_and_its_evidence(book, today, typed, shown):
    """The request is tied to the attempt and to the setup of its result."""
    typed("request", "zoe", "--gradebook", book, *TEST, "--text", "It works.")
    with gradebook.writing(book) as opened:
        setup = opened.setups.number_of(older(today))
        hand_in(opened, "zoe", "x = 1", **{f"setup_{setup}": Status.PASSED})
        hand_in(opened, "bob", "x = 2", **{f"setup_{setup}": Status.PASSED})
        opened.setups.apply(setup, why="regrade")
        assert opened._database.execute("SELECT setup FROM request").fetchone()[0] == 1
    assert "zoe: 7.00 of 7" in shown("zoe")
    assert "(failed: x): It works." in typed("status", book)[1]


def test_hostile_texts_cannot_command_the_terminal(book, typed, shown):
    short = (text for text in HOSTILE if len(text) <= 500)
    text = "".join(short).replace("\x00", "").replace("\ud800", "")  # no argument can have these
    assert typed("comment", "zoe", "--gradebook", book, "--text", text)[0] == 0
    assert typed("request", "zoe", "--gradebook", book, *TEST, "--text", text)[0] == 0
    said = shown("zoe") + typed("status", book)[1]
    assert "\\u202egnp.exe" in said
    allowed = {"\n", "\ufffe", "\uffff"}
    assert {c for c in said if not c.isprintable() and c not in allowed} == set()
