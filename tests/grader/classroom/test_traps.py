"""What a teaching assistant may type or be sent in a term: none of it is a silent wrong grade."""

import shutil

import pytest

from grader.classroom import gradebook
from tests.grader import small_courses
from tests.grader.classroom.a_class import WITH_LISTS, Desk, hand_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("batch"),
    pytest.mark.usefixtures("grading"),
]

SOLVED, NO_SHIFT = (WITH_LISTS[name][0] for name in ("ada", "bob"))
IDS = "id,name,email\ns01,Hana Rao,hana@x.edu\ns02,Bo Lee,bo@x.edu\ns03,Cy Roe,cy@x.edu\n"
OTHER_IDS = """Student,ID,SIS Login ID,Section
"Rao, Hana",9001,s01,A
"Lee, Bo",9002,s02,A
"Roe, Cy",9003,s03,A
"""


@pytest.fixture
def desk(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    small_courses.with_lists(tmp_path / "course")
    (tmp_path / "in").mkdir()
    return Desk(tmp_path, typed)


@pytest.fixture(scope="module")
def kept():
    """The gradebook of `graded` once it has been graded, as bytes."""
    return []


@pytest.fixture
def graded(desk, kept):
    hand_in(desk.folder / "in", "s01", SOLVED)
    hand_in(desk.folder / "in", "s02", NO_SHIFT)
    desk.write("roster.csv", IDS)
    book = desk.folder / "g.sqlite"
    book.write_bytes(kept[0]) if kept else None
    desk("batch in --gradebook g.sqlite --course course --roster roster.csv")
    kept[:] = [book.read_bytes()]
    return desk


def test_one_module_is_a_submission_however_it_is_collected(desk):
    desk.write("in/raohana_9005_779_activations.py", SOLVED)
    desk.write("in/leebo_9006_780_hw-2.py", NO_SHIFT)
    desk("batch in --gradebook g.sqlite --course course")
    assert desk.points() == {"9005": 3, "9006": 2}
    desk.write("moodle/Hana Rao_5551_assignsubmission_file_algo.py", SOLVED)
    desk("batch moodle --gradebook m.sqlite --course course")
    assert "Hana Rao" in (said := desk("status m.sqlite --verbose"))
    assert "3.00" in said
    desk.write("plain/ada.py", SOLVED)
    desk("batch plain --gradebook p.sqlite --course course")
    assert "1 student: 1 graded; mean 3.00" in desk("status p.sqlite")


def test_a_second_roster_never_doubles_a_class(graded):
    before = graded.points()
    graded.write("canvas.csv", OTHER_IDS)
    batch = "batch in --gradebook g.sqlite --roster"
    said = graded(f"{batch} canvas.csv", code=2)
    assert "Hana Rao (s01) is 9001, Bo Lee (s02) is 9002" in said
    assert "add --same-students" in said
    assert graded.points() == before == {"s01": 3, "s02": 2, "s03": None}
    said = graded(f"{batch} canvas.csv --same-students")
    assert "2 students have the roster's id from now on" in said
    assert graded.points() == {"9001": 3, "9002": 2, "9003": None}
    graded(f"{batch} roster.csv")
    assert list(graded.points().values()) == [3, 2, None]
    assert "needs --roster" in graded("batch in --gradebook g.sqlite --same-students", code=2)
    assert "needs --only" in graded("regrade g.sqlite --keep-others", code=2)


@pytest.mark.parametrize(
    "change", [lambda ids: ids.replace("s0", "S0"), lambda ids: ids.replace("s0", "00")]
)
def test_ids_that_a_spreadsheet_changed_stop_a_batch_and_the_right_ones_heal_it(graded, change):
    before = graded.points()
    graded.write("wrong.csv", change(IDS))
    graded("batch in --gradebook g.sqlite --roster wrong.csv", code=2)
    assert graded.points() == before


def test_a_first_roster_without_zeros_is_told_and_healed_by_the_right_one(desk):
    hand_in(desk.folder / "in", "0042", SOLVED)
    desk.write("wrong.csv", "id,name\n42,Bo\n7,Cy\n")
    said = desk("batch in --gradebook g.sqlite --course course --roster wrong.csv")
    assert "0042 is not on the roster, which has 42: a spreadsheet changes ids" in said
    desk.write("right.csv", "id,name\n0042,Bo\n007,Cy\n")
    desk("batch in --gradebook g.sqlite --roster right.csv")
    assert desk.points() == {"0042": 3, "007": None}


def test_a_former_id_is_no_stranger(graded):
    graded("rename-student s01 --id t01 --gradebook g.sqlite --reason married")
    assert "is not on the roster" not in graded("batch in --gradebook g.sqlite")
    assert graded.points() == {"s02": 2, "s03": None, "t01": 3}


def test_the_gradebook_knows_its_course(graded):
    """What runs no tests needs no --course; another course is refused in one sentence."""
    for command in (("regrade", "g.sqlite"), ("batch", "in", "--gradebook", "g.sqlite")):
        code, said = graded.types(*command)
        assert (code, f"add --course {graded.folder / 'course'}" in said) == (2, True)
    said = graded("status g.sqlite")
    assert "3 students: 2 graded, 1 missing; mean 2.50" in said
    assert "3.00 of 3" in graded("show s01 --gradebook g.sqlite")
    words = small_courses.plain_python(graded.folder / "words")
    for command in ("status g.sqlite", "regrade g.sqlite", "export g.sqlite --csv x.csv"):
        said = graded(f"{command} --course {words}", code=2)
        assert "is of another course of" in said
        assert "with the problems relu, softmax: expected its folder as --course" in said
    shutil.move(graded.folder / "course", graded.folder / "moved")
    assert "expected --course FOLDER" in graded("status g.sqlite", code=2)
    graded.write("moved/policy.toml", "[policy]\ntitle = 'Another title'\n")
    graded("status g.sqlite --course moved")


def test_points_and_tests_that_changed_since_are_told(graded):
    listed = graded.folder / "course" / "assignment" / "problems.toml"
    listed.write_text(listed.read_text().replace("points = 2", "points = 5"))
    said = graded("show s01 --gradebook g.sqlite")
    assert "the tests or problems.toml have changed since g.sqlite was graded" in said
    assert "3.00 of 3" in said
    graded("regrade g.sqlite --apply")
    said = graded("show s01 --gradebook g.sqlite")
    assert "6.00 of 6" in said
    assert "have changed" not in said


def test_a_part_is_graded_again_and_all_else_stays(graded):
    hand_in(graded.folder / "in", "s03", NO_SHIFT.replace("max(0.0, n)", "abs(n)"))
    graded("batch in --gradebook g.sqlite")
    before = graded.points()
    assert before == {"s01": 3, "s02": 2, "s03": 1}
    hidden = graded.folder / "course" / "tests" / "hidden"
    (softmax,) = [p for p in hidden.rglob("*.py") if "softmax" in p.as_posix()]
    softmax.write_text(softmax.read_text().replace("1000 + rng", "1 + rng"))
    said = graded("regrade g.sqlite --only softmax --student s02 --apply")
    assert "1 gain, 0 lose" in said
    assert graded.points() == before | {"s02": 3}
    assert "s03" not in graded("diff g.sqlite")
    hand_in(graded.folder / "in", "late", SOLVED)
    graded("batch in --gradebook g.sqlite")
    assert graded.points() == before | {"s02": 3, "late": 3}
    graded("regrade g.sqlite --undo")
    assert {name: graded.points()[name] for name in before} == before


def test_a_refused_student_gets_a_page_that_says_why(graded):
    graded.write("in/s03.rar", "Rar!")
    assert "s03.rar cannot be graded" in graded("batch in --gradebook g.sqlite")
    graded("export g.sqlite --html pages --markdown texts --gradescope results")
    page = (graded.folder / "pages" / "s03.html").read_text()
    assert "No points yet" in page
    assert "This submission could not be graded: s03.rar cannot be graded: expected" in page
    assert "nothing left to do" not in page
    assert "No points yet" in (graded.folder / "texts" / "s03.md").read_text()
    assert '"score"' not in (graded.folder / "results" / "s03.json").read_text()


def test_the_status_says_what_people_did_and_what_is_strange(graded):
    graded.write("in/s03/assignment/attention.py", "x = 1\n")
    graded("batch in --gradebook g.sqlite")
    graded("override s02 --gradebook g.sqlite --points 2.5 --reason oral")
    said = graded("status g.sqlite --verbose")
    assert "1 with points by hand" in said
    assert "2.5 by hand" in said
    assert "none of its 1 module belongs to this assignment" in said
    said = graded("status g.sqlite --since 2020-01-01")
    assert "s03: handed in s03" in said
    assert "2.5 points (oral)" in said
    assert graded("status g.sqlite --since 2120-01-01") == ""


def test_times_without_an_offset_are_in_the_zone_of_the_policy(graded):
    """A day means its end, in the policy, in extend and in its files."""
    rules = "[policy]\ntime_zone = 'America/New_York'\n[policy.deadlines]\ndefault = 2026-10-02\n"
    graded.write("course/policy.toml", rules)
    said = graded("extend s01 --gradebook g.sqlite --until 2026-10-09 --reason ill")
    assert "deadline: 2026-10-09T23:59:59-04:00" in said
    graded.write("more.csv", "student;until;reason\ns02;2026-11-09 12:00;ill\n")
    said = graded("extend --from more.csv --gradebook g.sqlite --apply")
    assert "2026-11-09T12:00:00-05:00" in said
    graded.write("points.csv", "Student;Points;Problem;Reason\nS02;1,5;softmax;'=oral\n")
    override = "override --from points.csv --gradebook g.sqlite"
    assert "+ s02 Bo Lee: 2.50 of 3; 1.5 for softmax by ta: =oral\n" in graded(override)
    assert graded.points()["s02"] == 2
    graded(f"{override} --apply")
    assert graded.points()["s02"] == 2.5


def test_a_copy_made_while_a_command_writes_is_complete(graded):
    """Each transaction reaches the file itself; an empty copy says which file is missing."""
    copy = graded.folder / "copy.sqlite"
    with gradebook.writing(graded.folder / "g.sqlite") as book:
        book.decisions.override("s01", 1, reason="while it is open")
        shutil.copy(book.path, copy)
    assert "1 by hand" in graded("status copy.sqlite --verbose")
