"""What the commands for a class print for a gradebook that already has results."""

import json
from datetime import timedelta

import msgspec
import pytest

from grader.base.errors import Status
from grader.classroom import gradebook
from grader.classroom.batches import BatchProgress
from grader.classroom.class_records import Student
from grader.commands import class_commands
from grader.course import courses
from grader.course.late_policy import Policy
from tests.grader.analysis.sample_gradebooks import class_of, failed, passed
from tests.grader.in_this_process import DUE, hand_in, of, older, result_of


def test_a_gradebook_charges_lateness_by_the_rules_that_it_remembers(begun, typed):
    """Later commands need no --policy; with --policy, they show what other rules would give."""
    with gradebook.writing(begun) as book:
        hand_in(book, "zoe", "x = 1", DUE + timedelta(hours=1), setup_1=Status.PASSED)
    said = typed("status", begun)[1]
    assert "1 graded; mean 7.00; 0 late" in said
    assert "no deadline is known, so nobody is late" in said
    with gradebook.writing(begun) as book:
        book.remember(Policy(title="replaced"))
        book.remember(Policy(per_cent_a_day=10, deadlines={"default": DUE}))
    said = typed("status", begun)[1]
    assert "mean 6.30; 1 late" in said
    assert "no deadline is known" not in said
    other = begun.with_name("other.toml")
    other.write_text("[policy]\nper_cent_a_day = 50\n[policy.deadlines]\nA = 2026-10-02T12:00:00Z")
    assert "mean 3.50; 1 late" in typed("status", begun, "--policy", other)[1]
    assert "zoe: 6.30 of 7; 1 day late" in typed("show", "zoe", "--gradebook", begun)[1]


def test_sections_without_a_deadline_and_deadlines_without_a_section_are_said(begun, typed):
    """Either one usually means that a name was mistyped."""
    with gradebook.writing(begun) as book:
        book.students.enrol([Student(id="zoe", section="A"), Student(id="bob", section="B")])
        book.remember(Policy(deadlines={"a": DUE, "B": DUE}))
    said = typed("status", begun)[1]
    assert "no deadline for section A: nobody in it is late" in said
    assert "there is a deadline for section a, which has no students" in said
    assert "section B" not in said


def test_a_report_has_the_name_of_its_own_student(begun, typed, tmp_path):
    """Students with equal sources share one result, which has the name of only one of them."""
    with gradebook.writing(begun) as book:
        hand_in(book, "zoe", "x = 1", setup_1=Status.FAILED)
        hand_in(book, "bob", "x = 1")
    shown = typed("show", "bob", "--gradebook", begun)[1]
    assert ("bob.zip" in shown, "zoe" in shown) == (True, False)
    assert typed("export", begun, "--markdown", tmp_path / "reports")[0] == 0
    texts = {file.stem: file.read_text() for file in (tmp_path / "reports").iterdir()}
    assert {"zoe", "bob"} == texts.keys()
    assert ("bob.zip" in texts["bob"], "zoe" in texts["bob"]) == (True, False)


@pytest.fixture
def two(begun):
    with gradebook.writing(begun) as book:
        hand_in(book, "zoe", "x = 1", setup_1=Status.PASSED)
        zoe = Student(id="zoe", name="Zoë Li", email="zl@x.edu")
        book.students.enrol([zoe, Student(id="zed", name="Zed")])
    return begun


def test_a_student_is_found_by_id_name_address_or_a_beginning(two, typed):
    """In any case of the letters; a decision needs a whole name."""
    for name in ("zoe", "ZOE", "zoë li", "zl@X.edu", "zo", "Zoë"):
        code, told, _ = typed("show", name, "--gradebook", two)
        assert (code, told.startswith("zoe Zoë Li: ")) == (0, True)
    code, _, said = typed("show", "z", "--gradebook", two)
    assert code == 2
    assert said.endswith("has 2 students z: zed Zed, zoe Zoë Li; name one by the id")
    code, _, said = typed("override", "zo", "--gradebook", two, "--points", 1, "--reason", "x")
    assert (code, said) == (2, f"grader: {two} has no student zo; did you mean zoe?")


@pytest.mark.parametrize(
    ("rules", "days", "told"),
    [
        ({}, (-1, 0), "attempt 2 counts: the latest of 2 attempts that costs no late penalty"),
        ({}, (1, 2), "attempt 1 counts: all attempts are late, and the first one has the smallest"),
        ({"counts": "best"}, (0, 2), "attempt 1 counts: the best of 2 after late penalties"),
        ({"late_days": 3, "late_days_used": {"zoe": 1}}, (-3, 1), "late days  1 of 3 used, and 1"),
    ],
)
def test_show_says_why_an_attempt_counts(begun, typed, rules, days, told):
    with gradebook.writing(begun) as book:
        book.remember(Policy(**{"per_cent_a_day": 10, "deadlines": {"default": DUE}} | rules))
        for text, day in zip(("x = 1", "x = 2"), days, strict=True):
            hand_in(book, "zoe", text, DUE + timedelta(days=day), setup_1=Status.PASSED)
    shown = typed("show", "zoe", "--gradebook", begun)[1]
    assert "deadline  2026-10-02T12:00+00:00" in shown
    assert told in shown


@pytest.fixture
def regraded(tmp_path, today):
    with gradebook.writing(tmp_path / "class.sqlite", create=True) as book:
        assert (book.setups.number_of(older(today)), book.setups.number_of(today)) == (1, 2)
        book.setups.apply(1, why="batch")
        hand_in(book, "zoe", "x = 1", setup_1=Status.FAILED, setup_2=Status.PASSED)
        hand_in(book, "bob", "x = 2", setup_1=Status.PASSED, setup_2=Status.FAILED)
    return tmp_path / "class.sqlite"


def test_a_newer_regrade_is_shown_rather_than_the_applied_one(regraded, today, typed):
    assert typed("regrade", regraded, "--apply")[0] == 0
    newest = msgspec.structs.replace(today, suite_sha256="ff" * 32)
    with gradebook.writing(regraded) as book:
        assert book.setups.number_of(newest) == 3
        book.results.keep(3, result_of(of("x = 1"), Status.FAILED))
    said = typed("diff", regraded)[1]
    assert "zoe: 7.00, then 0.00 (-7.00)" in said
    assert "1 more student has no new result yet" in said
    assert "was applied" not in said


def test_a_fault_of_the_grader_keeps_a_regrade_from_counting(regraded, typed, monkeypatch):
    with gradebook.writing(regraded) as book:
        hand_in(book, "cyd", "x = 3", setup_1=Status.PASSED)
        book.results.note_fault(2, of("x = 3").sha256, "the machine failed")
    # The machine fails again, so nothing is graded.
    monkeypatch.setattr(class_commands.batches, "grade", lambda *_, **__: BatchProgress(0))
    code, _, text = typed("regrade", regraded, "--apply")
    assert code == 3
    assert "the grader failed on cyd; the old results still count" in text
    assert "zoe: 0.00 of 7" in typed("show", "zoe", "--gradebook", regraded)[1]
    override = ("override", "cyd", "--gradebook", regraded, "--points", 5, "--reason", "by hand")
    assert typed(*override)[0] == 0
    assert typed("regrade", regraded, "--apply")[0] == 0
    assert "zoe: 7.00 of 7" in typed("show", "zoe", "--gradebook", regraded)[1]


def test_each_student_gets_a_page_with_the_points_that_count(begun, typed, tmp_path):
    """A page quotes the stored sources and links to the handout; without a result there is none."""
    page = tmp_path / "pages" / "zoe.html"
    with gradebook.writing(begun) as book:
        book.remember(Policy(handout_url="https://course.example/handout"))
        hand_in(book, "zoe", "class AdamW:\n    x = '<b>'", setup_1=Status.FAILED)
        hand_in(book, "bob", "y = 1")
    code, said, _ = typed("export", begun, "--html", page.parent)
    assert (0, f"wrote {page.parent}\n") == (code, said)
    assert ["zoe.html"] == [file.name for file in page.parent.iterdir()]
    text = page.read_text()
    assert "<h1>0 of 7 points</h1>" in text
    assert 'href="https://course.example/handout/08_optimizers.html#section-8-2"' in text


def test_gradescopes_scores_are_compared_with_ours(two, typed):
    """Exit code 1 is for a difference, 2 for a wrong call."""
    table = two.with_name("scores.csv")
    table.write_text("Name,SID,Email,Total Score\nZoe,zoe,,7.0\n")
    said = "1 row of Gradescope's file; 0 differences\n"
    assert (0, said, "") == typed("diff", two, "--gradescope", table)
    table.write_text("Name,SID,Email,Total Score\nZoe,zoe,,6.5\n")
    assert typed("diff", two, "--gradescope", table)[0] == 1
    assert typed("diff", two, two, "--gradescope", table)[0] == 2


def test_classroom_50_gets_overrides_and_a_record_per_student(two, typed, tmp_path):
    """The collected scores are read and stay as they are; a second export writes equal bytes."""
    scores, collected, rules = (tmp_path / n for n in ("new.json", "scores.json", "rules.toml"))
    collected.write_text('{"schema": "classroom50/scores/v1", "assignments": {}}')
    rules.write_text(
        '[policy.classroom50]\norganization = "org"\nclassroom = "systems"\nassignment = "hw1"\n'
    )
    call = ("export", two, "--classroom50", scores, "--classroom50-scores", collected)
    call = (*call, "--policy", rules, "--classroom50-results", tmp_path / "results")
    assert (0, f"wrote {scores}\nwrote {tmp_path / 'results'}\n", "") == typed(*call)
    first = scores.read_bytes()
    (entry,) = json.loads(first)["assignments"]["hw1"]["entries"]
    assert ("zoe", True, 7) == (entry["owner"], entry["override"], entry["submissions"][0]["score"])
    (record,) = (tmp_path / "results").iterdir()
    found = json.loads(record.read_text())
    assert ("zoe.json", "hw1") == (record.name, found["assignment"])
    collected.write_bytes(first)
    assert 0 == typed(*call)[0]
    assert first == scores.read_bytes() == collected.read_bytes()


# --- the class in one page ------------------------------------------------------------------------


WRONG = [failed("a", "The mistake."), passed("b")]
STUDENTS = {
    f"s{n}": ({"name": f"Ada Nr {n}", "section": "A"}, {"linear": WRONG, "adamw": WRONG})
    for n in range(4)
}


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "class.sqlite"
    with class_of(path, STUDENTS):
        pass
    return path


def test_an_anonymous_page_has_no_name(book, typed, tmp_path):
    out = tmp_path / "class.html"
    assert 0 == typed("page", book, out)[0]
    assert "Ada Nr 0 (s0)" in out.read_text()
    said = f"wrote {out}: 4 students, 4 tests\n"
    assert (0, said) == typed("page", book, out, "--anonymous")[:2]
    text = out.read_text()
    assert "without names" in text
    assert "Ada" not in text
    assert not [n for n in range(4) if f"(s{n})" in text or f">s{n}<" in text]


def test_mistakes_are_printed(book, typed):
    code, said, _ = typed("mistakes", book, "--top", "1")
    assert 0 == code
    lines = [line.split() for line in said.splitlines()]
    cost = str(2 * courses.load().problem("adamw").points)
    assert ["4", cost, "adamw", "§8.2", "The", "mistake."] in lines
    assert "linear" not in said.split("most common mistakes")[1]
