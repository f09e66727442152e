"""What the commands for a class print for a gradebook that already has results."""

import json
import sys
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from grader.base.errors import Status
from grader.classroom import gradebook, setups
from grader.classroom.batches import BatchProgress
from grader.classroom.records import Student
from grader.classroom.standings import Class
from grader.commands import classes, cli
from grader.course import courses
from grader.course.policies import Policy
from grader.results.points import problem_result, submission_result
from grader.results.records import GraderInfo, Outcome
from grader.submission.submissions import Submission

DUE = datetime(2026, 10, 2, 12, tzinfo=UTC)
PROBLEM = "adamw"


@pytest.fixture(scope="module")
def course():
    return courses.load()


@pytest.fixture(scope="module")
def today(course):
    """The setup of a run of one problem that starts now."""
    problems = [course.problem(PROBLEM)]
    return setups.of_today(course, problems, device="cpu", isolation="bubblewrap", seed=0)


@pytest.fixture
def path(tmp_path):
    """An empty gradebook."""
    path = tmp_path / "class.sqlite"
    with gradebook.writing(path, create=True):
        pass
    return path


def run(monkeypatch, capsys, *arguments):
    """Run a command in this process; return its exit code, its output and its last sentence."""
    monkeypatch.setattr(sys, "argv", ["grader", *map(str, arguments)])
    code, text = cli._run()
    return code, capsys.readouterr().out, text


@pytest.fixture
def grader(monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def of(text, name="zoe"):
    """A submission with one file of this text."""
    return Submission(name, {"assignment/adamw.py": text.encode()}, [])


def result_of(submission, status=Status.PASSED):
    """A result for one problem with one test, worth 7 points."""
    info = GraderInfo(
        version="1", suite_sha256="cd" * 32, device="cpu", isolation="bubblewrap", seed=0
    )
    ended = Outcome(
        id="test_steps", status=status, weight=1, what="" if status == "passed" else "x"
    )
    return submission_result(
        submission.info, info, [problem_result(PROBLEM, PROBLEM, 7, [ended])], seconds=1.0
    )


def hand_in(book, student, text, at=DUE, **statuses):
    """Add an attempt; `statuses` gives its outcome per setup, as in `setup_1=Status.PASSED`."""
    submission = of(text, student)
    book.students.enrol([Student(id=student, section="A")])
    book.attempts.add(student, f"{student}.zip", submission, submitted_at=at)
    for name, status in statuses.items():
        fault = "the machine failed" if status is Status.GRADER_ERROR else ""
        setup = int(name.removeprefix("setup_"))
        book.results.keep(setup, result_of(submission, status), fault=fault)


def older(today):
    """The setup of a run with an earlier suite."""
    return msgspec.structs.replace(today, suite_sha256="00" * 32)


# --- rules ----------------------------------------------------------------------------------------


def test_the_rules_of_the_command_come_first_then_the_gradebooks(path, course):
    """Without either, the course's rules count; this course has no policy.toml."""
    given, kept = Policy(title="given"), Policy(title="kept", deadlines={"default": DUE})
    with gradebook.writing(path, create=False) as book:
        assert Class(book, course).rules == Policy()
        book.remember(Policy(title="replaced"))
        book.remember(kept)
    with gradebook.reading(path) as book:
        assert Class(book, course).rules == kept
        assert Class(book, course, given).rules == given


def test_a_gradebook_charges_lateness_by_the_rules_that_it_remembers(path, today, grader):
    """Later commands need no --policy; with --policy, they show what other rules would give."""
    with gradebook.writing(path, create=False) as book:
        book.setups.apply(book.setups.number_of(today), why="batch")
        hand_in(book, "zoe", "x = 1", DUE + timedelta(hours=1), setup_1=Status.PASSED)
    _, said, _ = grader("status", path)
    assert "1 graded; mean 7.00; 0 late" in said
    assert "no deadline is known, so nobody is late" in said
    with gradebook.writing(path, create=False) as book:
        book.remember(Policy(per_cent_a_day=10, deadlines={"default": DUE}))
    _, said, _ = grader("status", path)
    assert "mean 6.30; 1 late" in said
    assert "no deadline is known" not in said
    other = path.with_name("other.toml")
    other.write_text("[policy]\nper_cent_a_day = 50\n[policy.deadlines]\nA = 2026-10-02T12:00:00Z")
    assert "mean 3.50; 1 late" in grader("status", path, "--policy", other)[1]
    assert "zoe: 6.30 of 7; 1 day late" in grader("show", "zoe", "--gradebook", path)[1]


def test_sections_without_a_deadline_and_deadlines_without_a_section_are_said(path, grader):
    """Either one usually means that a name was mistyped."""
    with gradebook.writing(path, create=False) as book:
        book.students.enrol([Student(id="zoe", section="A"), Student(id="bob", section="B")])
        book.remember(Policy(deadlines={"a": DUE, "B": DUE}))
    _, said, _ = grader("status", path)
    assert "no deadline for section A: nobody in it is late" in said
    assert "there is a deadline for section a, which has no students" in said
    assert "section B" not in said


# --- one student ----------------------------------------------------------------------------------


def test_a_report_has_the_name_of_its_own_student(path, today, grader, tmp_path):
    """Students with equal sources share one result, which has the name of only one of them."""
    with gradebook.writing(path, create=False) as book:
        book.setups.apply(book.setups.number_of(today), why="batch")
        hand_in(book, "zoe", "x = 1", setup_1=Status.FAILED)
        hand_in(book, "bob", "x = 1")
    shown = grader("show", "bob", "--gradebook", path)[1]
    assert "bob.zip" in shown
    assert "zoe" not in shown
    assert grader("export", path, "--markdown", tmp_path / "reports")[0] == 0
    texts = {file.stem: file.read_text() for file in (tmp_path / "reports").iterdir()}
    assert {"zoe", "bob"} == texts.keys()
    assert "bob.zip" in texts["bob"]
    assert "zoe" not in texts["bob"]


def known(path, today):
    """A gradebook with two students, one of whom has handed in nothing."""
    with gradebook.writing(path, create=False) as book:
        book.setups.apply(book.setups.number_of(today), why="batch")
        hand_in(book, "zoe", "x = 1", setup_1=Status.PASSED)
        book.students.enrol(
            [Student(id="zoe", name="Zoë Li", email="zl@x.edu"), Student(id="zed", name="Zed")]
        )


@pytest.mark.parametrize("name", ["zoe", "ZOE", "zoë li", "zl@X.edu", "zo", "Zoë"])
def test_a_student_is_found_by_id_name_address_or_a_beginning(path, today, grader, name):
    """In any case of the letters."""
    known(path, today)
    code, told, _ = grader("show", name, "--gradebook", path)
    assert (code, told.startswith("zoe Zoë Li: ")) == (0, True)


def test_two_students_of_one_beginning_are_listed(path, today, grader):
    """And a decision needs a whole name."""
    known(path, today)
    code, _, said = grader("show", "z", "--gradebook", path)
    assert code == 2
    assert said.endswith("has 2 students z: zed Zed, zoe Zoë Li; name one by the id")
    code, _, said = grader("override", "zo", "--gradebook", path, "--points", 1, "--reason", "x")
    assert (code, said) == (
        2,
        f"grader: {path} has no student zo; did you mean Zoë Li (zoe)?",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("zoe", "--points", 500), "--points 500: the assignment gives at most 7; --anyway"),
        (("zoe", "--points", 6, "--problem", PROBLEM), "--points 6: adamw gives at most 5"),
        (("zed", "--points", 5), "Zed (zed) handed in nothing; --anyway gives the points"),
    ],
)
def test_points_that_are_probably_a_slip_are_refused(path, today, grader, words, said):
    """--anyway gives them, such as extra points, or points for an oral exam."""
    known(path, today)
    words = ("override", *words, "--gradebook", path, "--reason", "a reason")
    code, _, told = grader(*words)
    assert (code, said in told) == (2, True)
    assert grader(*words, "--anyway")[0] == 0


@pytest.mark.parametrize(
    ("rules", "days", "told"),
    [
        ({}, (-1, 0), "attempt 2 counts: the latest of 2 attempts that costs no late penalty"),
        ({}, (1, 2), "attempt 1 counts: all attempts are late, and the first one has the smallest"),
        ({"counts": "best"}, (0, 2), "attempt 1 counts: the best of 2 after late penalties"),
        ({"late_days": 3, "late_days_used": {"zoe": 1}}, (-3, 1), "late days  1 of 3 used, and 1"),
    ],
)
def test_show_says_why_an_attempt_counts(path, today, grader, rules, days, told):
    """With the deadline and the late days."""
    rules = {"per_cent_a_day": 10, "deadlines": {"default": DUE}} | rules
    with gradebook.writing(path, create=False) as book:
        book.setups.apply(book.setups.number_of(today), why="batch")
        book.remember(Policy(**rules))
        for text, day in zip(("x = 1", "x = 2"), days, strict=True):
            at = DUE + timedelta(days=day)
            hand_in(book, "zoe", text, at=at, setup_1=Status.PASSED)
    shown = grader("show", "zoe", "--gradebook", path)[1]
    assert "deadline  2026-10-02T12:00+00:00" in shown
    assert told in shown


# --- grading again --------------------------------------------------------------------------------


@pytest.fixture
def regraded(path, today):
    """A regrade in which Zoe gains all points and Bob loses all points."""
    with gradebook.writing(path, create=False) as book:
        assert (book.setups.number_of(older(today)), book.setups.number_of(today)) == (1, 2)
        book.setups.apply(1, why="batch")
        hand_in(book, "zoe", "x = 1", setup_1=Status.FAILED, setup_2=Status.PASSED)
        hand_in(book, "bob", "x = 2", setup_1=Status.PASSED, setup_2=Status.FAILED)
    return path


def test_a_regrade_is_shown_before_it_counts_and_after(regraded, grader):
    """`grader diff` shows the same before and after a regrade is applied; an undo reverts it.

    All results already exist, so nothing is graded here.
    """
    changes = [
        "changed: the suite: 000000000000, now ",
        "2 students: 1 gain, 1 lose, 0 change otherwise; "
        "points of the class before 7.00, after 7.00",
        "  adamw, test_steps: 1 gain points",
        "  bob: 7.00, then 0.00 (-7.00)",
        "      adamw, test_steps: passed, now failed",
    ]
    for command, last in (
        (("diff",), ""),
        (("regrade",), "the old results still count; --apply changes that\n"),
        (
            ("regrade", "--apply"),
            f"the new results count; `grader regrade {regraded} --undo` reverts that\n",
        ),
        (("diff",), "this regrade was applied: the new results count\n"),
    ):
        code, said, _ = grader(command[0], regraded, *command[1:])
        assert code == 0
        assert all(line in said for line in changes), said
        assert said.endswith(last)
    assert "zoe: 7.00 of 7" in grader("show", "zoe", "--gradebook", regraded)[1]
    assert grader("regrade", regraded, "--undo")[0] == 0
    assert "zoe: 0.00 of 7" in grader("show", "zoe", "--gradebook", regraded)[1]
    assert grader("regrade", regraded, "--undo")[0] == 2


def test_a_newer_regrade_is_shown_rather_than_the_applied_one(regraded, today, grader):
    assert grader("regrade", regraded, "--apply")[0] == 0
    newest = msgspec.structs.replace(today, suite_sha256="ff" * 32)
    with gradebook.writing(regraded, create=False) as book:
        assert book.setups.number_of(newest) == 3
        book.results.keep(3, result_of(of("x = 1"), Status.FAILED))
        book.results.keep(3, result_of(of("x = 2"), Status.FAILED))
    _, said, _ = grader("diff", regraded)
    assert "zoe: 7.00, then 0.00 (-7.00)" in said
    assert "was applied" not in said


def test_a_fault_of_the_grader_keeps_a_regrade_from_counting(regraded, grader, monkeypatch):
    """The regrade names the student and is not applied; an override removes the obstacle."""
    with gradebook.writing(regraded, create=False) as book:
        hand_in(book, "cyd", "x = 3", setup_1=Status.PASSED)
        book.results.note_fault(2, of("x = 3").sha256, "the machine failed")
    # The machine fails again, so nothing is graded.
    monkeypatch.setattr(classes.batches, "grade", lambda *_, **__: BatchProgress(0))
    code, _, text = grader("regrade", regraded, "--apply")
    assert code == 3
    assert "the grader failed on cyd; the old results still count" in text
    assert "zoe: 0.00 of 7" in grader("show", "zoe", "--gradebook", regraded)[1]
    assert (
        grader(
            "override", "cyd", "--gradebook", regraded, "--points", 5, "--reason", "read by hand"
        )[0]
        == 0
    )
    assert grader("regrade", regraded, "--apply")[0] == 0
    assert "zoe: 7.00 of 7" in grader("show", "zoe", "--gradebook", regraded)[1]


# --- reports --------------------------------------------------------------------------------------


def test_each_student_gets_a_page_with_the_points_that_count(path, today, grader, tmp_path):
    """A page quotes the stored sources and links to the handout; without a result there is none."""
    page = tmp_path / "pages" / "zoe.html"
    with gradebook.writing(path, create=False) as book:
        book.remember(Policy(handout_url="https://course.example/handout"))
        book.setups.apply(book.setups.number_of(today), why="batch")
        hand_in(book, "zoe", "class AdamW:\n    x = '<b>'", setup_1=Status.FAILED)
        hand_in(book, "bob", "y = 1")
    code, said, _ = grader("export", path, "--html", page.parent)
    assert (0, f"wrote {page.parent}\n") == (code, said)
    assert ["zoe.html"] == [file.name for file in page.parent.iterdir()]
    text = page.read_text()
    assert "<h1>0 of 7 points</h1>" in text
    assert 'href="https://course.example/handout/08_optimizers.html#section-8-2"' in text
    grader(
        "override", "zoe", "--gradebook", path, "--points", "5", "--reason", "a <mistake> of ours"
    )
    grader("export", path, "--html", page.parent)
    assert "<h1>5 of 7 points</h1>" in page.read_text()
    assert "a &lt;mistake&gt; of ours" in page.read_text()


# --- other systems --------------------------------------------------------------------------------


def test_gradescopes_scores_are_compared_with_ours(path, today, grader):
    """Exit code 1 is for a difference, 2 for a wrong call."""
    with gradebook.writing(path, create=False) as book:
        book.setups.apply(book.setups.number_of(today), why="batch")
        hand_in(book, "zoe", "x = 1", setup_1=Status.PASSED)
    table = path.with_name("scores.csv")
    table.write_text("Name,SID,Email,Total Score\nZoe,zoe,,7.0\n")
    said = "1 row of Gradescope's file; 0 differences\n"
    assert (0, said, "") == grader("diff", path, "--gradescope", table)
    table.write_text("Name,SID,Email,Total Score\nZoe,zoe,,6.5\n")
    code, said, _ = grader("diff", path, "--gradescope", table)
    assert (1, "  zoe  Gradescope    6.50  ours    7.00") == (code, said.splitlines()[1])
    assert 2 == grader("diff", path, path, "--gradescope", table)[0]


def test_classroom_50_gets_overrides_and_a_record_per_student(path, today, grader):
    """The collected scores are read and stay as they are; a second export writes equal bytes."""
    with gradebook.writing(path, create=False) as book:
        book.setups.apply(book.setups.number_of(today), why="batch")
        hand_in(book, "zoe", "x = 1", setup_1=Status.PASSED)
        hand_in(book, "bob", "x = 2")
    folder = path.parent
    scores, collected = folder / "new.json", folder / "scores.json"
    collected.write_text('{"schema": "classroom50/scores/v1", "assignments": {}}')
    call = ("export", path, "--classroom50", scores, "--classroom50-scores", collected)
    code, _, said = grader(*call)
    assert (2, True) == (code, "[policy.classroom50]" in said)
    rules = folder / "rules.toml"
    rules.write_text(
        '[policy.classroom50]\norganization = "org"\nclassroom = "systems"\nassignment = "hw1"\n'
    )
    call = (*call, "--policy", rules, "--classroom50-results", folder / "results")
    assert (0, f"wrote {scores}\nwrote {folder / 'results'}\n", "") == grader(*call)
    first = scores.read_bytes()
    (entry,) = json.loads(first)["assignments"]["hw1"]["entries"]
    assert ("zoe", True, 7) == (entry["owner"], entry["override"], entry["submissions"][0]["score"])
    record = json.loads((folder / "results" / "zoe.json").read_text())
    assert ("classroom50/result/v1", "hw1") == (record["schema"], record["assignment"])
    assert ["zoe.json"] == [file.name for file in (folder / "results").iterdir()]
    collected.write_bytes(first)
    assert 0 == grader(*call)[0]
    assert first == scores.read_bytes() == collected.read_bytes()
