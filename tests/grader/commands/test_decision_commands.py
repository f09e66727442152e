"""What people decide: who is a student, points and deadlines, comments and regrade requests."""

import shutil
import sqlite3
from datetime import timedelta

import pytest

from grader.base.errors import Status
from grader.classroom import database, gradebook
from grader.classroom.class_records import Student
from grader.course import late_policy
from grader.course.late_policy import Policy
from tests.grader.in_this_process import DUE, PROBLEM, hand_in, new_book, of, older
from tests.grader.report.sample_results import HOSTILE

DAY = timedelta(days=1)
RULES = Policy(per_cent_a_day=10, late_days=1, deadlines={"default": DUE, "evening": DUE + DAY})


@pytest.fixture
def class_(begun, typed):
    """Ada under her id and, from another platform, under her name; Bob; and Eve, who is missing."""
    with gradebook.writing(begun) as book:
        book.remember(RULES)
        hand_in(book, "ada", "x = 1", DUE - DAY, setup_1=Status.FAILED)
        hand_in(book, "Ada Lovelace", "x = 2", DUE + 2 * DAY, setup_1=Status.PASSED)
        hand_in(book, "bob", "x = 3", DUE, setup_1=Status.PASSED)
        book.students.enrol(
            [
                Student(id="ada", email="al@x.edu", section="evening"),
                Student(id="Ada Lovelace", name="Ada Lovelace", listed=False),
                Student(id="bob", name="Bob B", section="evening"),
                Student(id="eve", name="Eve E"),
            ],
            roster=True,
        )
        book.decisions.override("ada", 2, problem=PROBLEM, reason="fair")
        book.decisions.extend("Ada Lovelace", DUE + 2 * DAY, reason="ill")
        book.feedback.comment("Ada Lovelace", "well done", name="")
    return begun


def rows(path):
    """All rows of a gradebook, except those of the table that this module is about."""
    with sqlite3.connect(path) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        found = {t: database.execute(f"SELECT * FROM {t}").fetchall() for (t,) in tables}
    database.close()
    return {table: some for table, some in found.items() if table != "change"}


def test_two_entries_become_one_student_and_two_again(class_, typed):
    """Attempts, points, deadlines and comments of both count; no row but those of changes moves."""
    words = ("--gradebook", class_)
    before, shown = rows(class_), typed("status", class_, "--verbose")[1]
    code, said, _ = typed("merge-students", "ADA LOVELACE", "--into", "AL@x.edu", *words)
    assert code == 0
    # The second attempt earns 7, and is on time by the extension; points by hand replace these 7.
    assert said.startswith("before:  Ada Lovelace Ada Lovelace: 7.00 of 7\nbefore:  ada: 2.00 of 7")
    for part in (
        "\nada Ada Lovelace: 2.00 of 7; 2 for adamw by ta: fair\n",
        "also known as Ada Lovelace",
        "deadline  2026-10-04T12:00+00:00",
        "attempt 2 counts: the latest of 2 attempts",
        "ta: change 1: Ada Lovelace and ada are one student",
        "comment 1: well done",
    ):
        assert part in said
    assert typed("status", class_)[1].startswith("3 students: 2 graded, 1 missing")
    assert rows(class_) == before
    assert typed("merge-students", "ada lovelace", "--undo", *words)[0] == 0
    assert (rows(class_), typed("status", class_, "--verbose")[1]) == (before, shown)


def test_a_file_with_a_former_name_is_the_students(class_, typed):
    """Read again, it is known; a new one is the student's next attempt."""
    typed("merge-students", "Ada Lovelace", "--into", "ada", "--gradebook", class_)
    with gradebook.writing(class_) as book:
        again = {"submitted_at": DUE - DAY}
        assert not book.attempts.add("Ada Lovelace", "ada.zip", of("x = 1", "ada"), **again)
        book.students.enrol([Student(id="Ada Lovelace", listed=False)])
        assert book.attempts.add("Ada Lovelace", "new.zip", of("x = 9"))
        assert len(book.attempts.all("ada")) == 3
        (ada,) = [one for one in book.students.all() if one.id == "ada"]
    found = (ada.name, ada.email, ada.section, ada.listed)
    assert found == ("Ada Lovelace", "al@x.edu", "evening", True)


def test_late_days_are_those_of_every_id_of_a_student(class_, typed, tmp_path):
    words, rules = ("--gradebook", class_), tmp_path / "rules.toml"
    used = "student,assignment,days\nAda Lovelace,hw1,1\nbob,hw1,2\nb42,hw0,1\n"
    (tmp_path / "bank.csv").write_text(used)
    rules.write_text('[policy]\ntitle = "hw2"\nlate_days = 5\nlate_days_file = "bank.csv"\n')
    with gradebook.writing(class_) as book:
        book.remember(late_policy.load(rules, needed=True))
    typed("merge-students", "Ada Lovelace", "--into", "ada", *words)
    assert "and 1 in other assignments" in typed("show", "ada", *words)[1]
    assert "and 2 in other assignments" in typed("show", "bob", *words)[1]
    told = "bank.csv has late days of b42, and no student here has this id; if it is another id of"
    assert told in typed("status", class_)[1]
    for again in (("rename-student", "bob", "--id", "b42"), ("show", "b42")):
        assert "0 of 5 used, and 3 in other assignments" in typed(*again, *words)[1]
    assert "has late days of" not in typed("status", class_)[1]
    said = typed("rename-student", "b42", "--undo", *words)[1]
    assert "0 of 5 used, and 2 in other assignments" in said


def test_a_renamed_student_keeps_everything(class_, typed):
    words = ("--gradebook", class_)
    before = typed("status", class_, "--verbose")[1]
    code, said, _ = typed("rename-student", "bob", "--id", "b 42", "--name", "Robert", *words)
    assert (code, said.startswith("b 42 Robert: 7.00 of 7")) == (0, True)
    assert typed("show", "BOB", *words)[1].startswith("b 42 Robert: 7.00 of 7")
    assert typed("rename-student", "Robert", "--undo", *words)[0] == 0
    assert typed("status", class_, "--verbose")[1] == before
    typed("rename-student", "bob", "--id", "b42", *words)
    assert typed("override", "b42", "--points", 3, "--reason", "oral", *words)[0] == 0
    typed("rename-student", "b42", "--undo", *words)
    assert "\nalso" not in typed("show", "bob", *words)[1].splitlines()[0]
    assert typed("show", "bob", *words)[1].startswith("bob Bob B: 3.00 of 7")
    assert "4 students" in typed("status", class_)[1]


def test_a_former_id_comes_back_only_by_undo(class_, typed):
    """Else an id would lead in a circle; and what came later is undone first."""
    words = ("--gradebook", class_)
    typed("rename-student", "bob", "--id", "b42", *words)
    told = typed("rename-student", "b42", "--id", "bob", *words)[2]
    assert "--id bob: it is a former id of b42; --undo brings it back" in told
    typed("merge-students", "b42", "--into", "ada", *words)
    told = typed("rename-student", "bob", "--undo", *words)[2]
    assert told == "grader: first undo what came later: b42 and ada are one student"


def test_a_removed_student_is_nowhere_and_comes_back(class_, typed, tmp_path):
    words, table = ("--gradebook", class_), tmp_path / "table.csv"
    before, shown = rows(class_), typed("status", class_, "--verbose")[1]
    assert typed("remove-student", "bob", "--reason", "left", *words)[0] == 0
    said = typed("status", class_)[1]
    assert said.startswith("3 students")
    assert "removed and not counted: Bob B (bob)" in said
    assert typed("export", class_, "--csv", table)[0] == 0
    assert "bob" not in table.read_text()
    code, _, said = typed("show", "bob", *words)
    assert code == 2
    assert "Bob B (bob) was removed by ta at " in said
    assert f"(left); `grader remove-student bob --gradebook {class_} --undo`" in said
    with gradebook.writing(class_) as book:
        assert [one.id for one in book.students.all()] == ["Ada Lovelace", "ada", "eve"]
        assert len(book.students.all(removed=True)) == 4
    assert rows(class_) == before
    assert typed("remove-student", "bob", "--undo", *words)[0] == 0
    assert typed("status", class_, "--verbose")[1] == shown


def test_points_for_nothing_are_given_and_withdrawn(class_, typed):
    """Also more than there are."""
    words = ("override", "eve", "--gradebook", class_, "--reason", "oral")
    assert typed(*words, "--points", 8, "--anyway")[1] == "eve Eve E: 8.00 of 7; 8 by ta: oral\n"
    assert "2 with points by hand" in typed("status", class_)[1]
    assert typed(*words, "--remove")[1] == "eve Eve E: missing\n"


def test_one_wrong_row_and_nothing_is_written(class_, typed, tmp_path):
    file, words = tmp_path / "points.csv", ("--gradebook", class_, "--apply")
    lines = ["student,points,problem,reason", "bob,4,,fair", "zed,1,,x", "bob,nan,,x", "bob,-1,,x"]
    lines += ["bob,500,,x", "bob,1,nosuch,x", "eve,1,,x", "bob,3,,x", "ada,1,,", "ada,6,adamw,x"]
    file.write_text("\n".join(lines))
    before = rows(class_)
    code, _, said = typed("override", "--from", file, *words)
    assert (code, rows(class_)) == (2, before)
    for part in (
        "line 3: ",
        "has no student zed",
        "line 4: points nan: expected a number such as 3.5, 0 or more",
        "line 5: points -1",
        "line 6: points 500: the assignment gives at most 7; --anyway",
        "line 7: problem nosuch: no such problem",
        "line 8: Eve E (eve) handed in nothing; --anyway",
        "line 9: a second row for bob",
        "line 10: expected a reason, in the row or with --reason",
        "line 11: points 6: adamw gives at most 5; --anyway",
        "; nothing was written",
    ):
        assert part in said


def test_a_whole_section_gets_a_later_deadline(class_, typed):
    words = ("--until", "2026-10-09T12:00:00Z", "--reason", "power cut", "--gradebook", class_)
    code, said, _ = typed("extend", "--section", "Evening", *words)
    assert (code, said.count("\n+ deadline: 2026-10-09T12:00:00+00:00")) == (0, 2)
    assert "  bob Bob B: 7.00 of 7\n- deadline: 2026-10-03T12:00:00+00:00\n" in said
    assert said.endswith("nothing is written; --apply writes this\n")
    assert "10-09" not in typed("show", "bob", "--gradebook", class_)[1]
    assert typed("extend", "--section", "evening", "--apply", *words)[0] == 0
    assert "deadline  2026-10-09" in typed("show", "bob", "--gradebook", class_)[1]
    assert "deadline  2026-10-02" in typed("show", "eve", "--gradebook", class_)[1]


# --- comments and regrade requests ----------------------------------------------------------------


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
    monkeypatch.setattr(database, "user", lambda: "ta7")
    monkeypatch.setattr(database, "now", lambda: "2026-10-05T10:00:00+00:00")
    return shutil.copy(graded, tmp_path / "class.sqlite")


@pytest.fixture
def shown(book, typed):
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
    typed("export", book, "--html", tmp_path / "pages")
    assert "<li>Comment: Mind the sign.</li>" in (tmp_path / "pages" / "bob.html").read_text()
    assert "Comment on adamw: Mind the sign." in (tmp_path / "pages" / "zoe.html").read_text()


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
