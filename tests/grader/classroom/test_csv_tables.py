"""A class as CSV for a spreadsheet, which runs no formula of it, for Canvas and Gradescope."""

import csv
import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.base.errors import UsageError
from grader.classroom import status_texts
from grader.classroom.canvas_csv import canvas, for_canvas
from grader.classroom.class_records import Standing, State, Student
from grader.classroom.gradescope_comparison import ScoreDifference, differences, read
from grader.classroom.spreadsheet_csv import csv_table
from grader.course.late_policy import Policy
from grader.report.gradebook_notes import Override
from tests.grader.classroom.a_class import read_csv_table
from tests.grader.report.sample_results import HARMLESS, HOSTILE

AT = datetime(2025, 3, 4, 23, 59, 30, tzinfo=UTC)
DUE = datetime(2025, 3, 2, 23, 59, 59, tzinfo=UTC)
PROBLEMS = ["linear", "adamw"]


def student(name, **given):
    return Student(**{"id": name.lower(), "name": name, "email": f"{name.lower()}@x.org"} | given)


def override(problem, points, reason):
    return Override(problem=problem, points=points, who="prof", reason=reason, at=AT)


def standing(who, state=State.GRADED, **given):
    """A standing in an assignment of 20 points."""
    who = student(who) if isinstance(who, str) else who
    return Standing(**{"student": who, "state": state, "max_score": 20.0} | given)


CLASS = [
    standing(
        student("Ada", section="A", columns={"seat": "12", "team": "red"}), points=17.5, score=17.5,
        problems={"linear": 10.0, "adamw": 7.5}, attempt=2, attempts=3, submitted_at=DUE,
        deadline=DUE,
    ),
    standing(
        "Late", points=20 / 3 * 0.8, score=20 / 3, problems={"linear": 20 / 3}, pending=4.0,
        days_late=2, free_days=1, penalty=20.0, attempt=1, attempts=1, submitted_at=AT,
        deadline=DUE,
    ),
    standing(
        student("Over", columns={"team": "blue", "note": "tall"}), points=12.0, score=9.0,
        overrides=[override("linear", 3.5, "a typo"), override("", 12.0, "by\nhand")],
    ),
    standing("Miss", State.MISSING, why="nothing was handed in"),
    standing("Refused", State.REFUSED, why="the zip is broken", attempt=1, attempts=1),
    standing("Waits", State.NOT_GRADED, why="it has not been graded yet", attempt=1, attempts=1),
    standing("Fault", State.GRADER_ERROR, why="ZeroDivisionError", attempt=1, attempts=1),
]  # fmt: skip
STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cells(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def rows(text):
    return {row["id"]: row for row in read_csv_table(text)}


TABLE = """\
id,name,email,section,state,points,score,max_score,pending,penalty,days_late,late_days_used,\
attempt,attempts,submitted_at,deadline,linear,adamw,overrides,note,seat,team,note (2)
ada,Ada,ada@x.org,A,graded,17.5,17.5,20,0,0,0,0,2,3,\
2025-03-02T23:59:59+00:00,2025-03-02T23:59:59+00:00,10,7.5,,,12,red,
late,Late,late@x.org,,graded,5.3333,6.6667,20,4,20,2,1,1,1,\
2025-03-04T23:59:30+00:00,2025-03-02T23:59:59+00:00,6.6667,,,,,,
over,Over,over@x.org,,graded,12,9,20,0,0,0,0,0,0,,,,,\
linear 3.5 prof: a typo; total 12 prof: by hand,,,blue,tall
miss,Miss,miss@x.org,,missing,,,20,0,0,0,0,0,0,,,,,,nothing was handed in,,,
refused,Refused,refused@x.org,,refused,,,20,0,0,0,0,1,1,,,,,,the zip is broken,,,
waits,Waits,waits@x.org,,not_graded,,,20,0,0,0,0,1,1,,,,,,it has not been graded yet,,,
fault,Fault,fault@x.org,,grader_error,,,20,0,0,0,0,1,1,,,,,,ZeroDivisionError,,,
zero,Zero,zero@x.org,,graded,0,0,20,0,0,0,0,0,0,,,,,,,,,
tiny,Tiny,tiny@x.org,,graded,0,100,20,0,0,0,0,0,0,,,,,,,,,
"""


def test_a_class_is_a_table():
    """No score is an empty cell and never 0; a roster's column with one of our names is renamed."""
    zero = standing("Zero", points=0.0, score=0.0)
    tiny = standing("Tiny", points=-0.00001, score=100.0)
    assert TABLE == csv_table([*CLASS, zero, tiny], PROBLEMS)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_cell_can_be_a_formula(text):
    """This holds for every column and the header, and also after leading spaces."""
    who = Student(id=text, name=text, email=text, section=text, columns={text: text})
    one = standing(who, why=text, overrides=[override(text, 1.0, text)])
    table = csv_table([one], [f"p{text}"])
    found = cells(table)
    assert 2 == len(found)
    for cell in [*found[0], *found[1]]:
        assert not cell.lstrip().startswith(STARTS)
        assert {c for c in cell if not c.isprintable()} <= set(HARMLESS)
    assert table.isascii() or not set(table) & set("\u202e\u2066\u2028\x1b")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((text, f"'{text}") for text in ("=1", "  =1", "'=1", "'=", "+1", "-")),
        *((text, text) for text in ("'tis", "-1", "-1.5", "'-1", "a=1")),
        ("a;=1+1;-2", "a;'=1+1;-2"),  # a European spreadsheet divides cells so
    ],
)
def test_an_apostrophe_is_removed_only_where_it_was_added(text, cell):
    table = csv_table([standing(Student(id="a", name=text))], [])
    assert (cell, text) == (cells(table)[1][1], rows(table)["a"]["name"])


@given(
    st.one_of(
        st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20),
        st.text("'=+-@ 1a.;", max_size=8),
    )
)
def test_every_printable_text_reads_back(text):
    """Also every mix of the characters that formulas and escapes begin with."""
    table = csv_table([standing(Student(id="a", name=text, columns={"c": f"'{text}"}))], [])
    assert (text, f"'{text}") == (rows(table)["a"]["name"], rows(table)["a"]["c"])


EXPORTED = """\
Student,ID,SIS User ID,SIS Login ID,Section,Quiz (77),Homework 1 (42),Current Score,Final (read only)
,,,,,,Manual Posting,,
    Points Possible,,,,,5,20,(read only),(read only)
"Lovelace, Ada",1001,S-1,ada@x.org,"A, morning",=1+1,,83.0,x
"Late, Student",1002,S-2,LATE@x.org,A,4,3,,
Over,1003,over,o1,A,4,EX,,
Miss,1004,S-4,miss@x.org,A,,7,,
"Stranger, A",1009,S-9,stranger@x.org,A,3,11,,
"Student, Test",1099,,abcdef,A,,,,
"""  # noqa: E501


def filled(standings=CLASS, exported=EXPORTED, title="Homework 1", former=None, **rules):
    """Fill the standings into a file exported from Canvas, or into a new one."""
    policy = Policy(title=title, more=rules)
    return canvas(standings, policy, exported=exported, former=former)


def column(text, place=6):
    return {row[0]: row[place] for row in cells(text)}


@pytest.mark.parametrize("rules", [{}, {"title": "renamed", "canvas_id": 42}])
def test_only_the_assignments_column_of_an_export_changes(rules):
    """Excused students stay excused; notes name lost scores and students unknown to Canvas."""
    made = filled(**rules)
    changes = {"Lovelace, Ada": "17.5", "Late, Student": "5.3333", "Miss": ""}
    assert column(made.text) == column(EXPORTED) | changes
    before, after = cells(EXPORTED), cells(made.text)
    for row in before + after:
        row[6] = ""
    assert before == after
    assert made.notes == [
        "Over (over) is excused in Canvas and stays excused",
        "Miss (miss) had 7 points in Canvas and has no score now (missing)",
        "Refused (refused) is not in the file from Canvas",
        "Waits (waits) is not in the file from Canvas",
        "Fault (fault) is not in the file from Canvas",
    ]
    assert made.text == filled(exported=made.text, **rules).text


def test_the_form_of_the_export_is_kept():
    dos = "\ufeff" + EXPORTED.replace("\n", "\r\n")
    assert "\ufeff" + filled().text.replace("\n", "\r\n") == filled(exported=dos).text
    other = io.StringIO(newline="")
    csv.writer(other, delimiter=";", lineterminator="\n").writerows(cells(EXPORTED))
    made = filled(exported=other.getvalue()).text
    assert cells(filled().text) == list(csv.reader(io.StringIO(made), delimiter=";"))
    commas = "Student;ID;HW (1);HW2 (2)\n    Points Possible;;20,00;20,00\nAda;5;12,00;\n"
    made = filled([standing(Student(id="5"), points=1.25)], commas, canvas_id=2)
    assert made.text.splitlines()[2] == "Ada;5;12,00;1,25"


HALF = EXPORTED.replace(",,,,,5,20,", ",,,,,5,10,")
TWICE = EXPORTED.replace("Quiz (77)", "Homework 1 (77)")


def test_canvas_points_scale_ours_or_send_them_as_they_are():
    """They are rounded, a half upwards."""
    for points, rules in (
        ("8.75", {"canvas_points": 10}),
        ("17.5", {"canvas_points": 20}),
        ("8.8", {"canvas_points": 10, "canvas_decimals": 1}),
    ):
        assert column(filled(exported=HALF, **rules).text)["Lovelace, Ada"] == points
    one = standing("Ada", points=2.5)
    assert for_canvas([one], Policy(more={"canvas_decimals": 0}), None)[0].points == 3
    made = filled(exported=None, canvas_id=42, canvas_points=10)
    assert "    Points Possible,,,,,10" in made.text
    assert "Ada,,ada,ada@x.org,A,8.75" in made.text


def test_a_renamed_student_has_a_row_by_a_former_id_or_the_number_in_canvas():
    found = [
        standing(Student(id="new"), points=1.0),
        standing(Student(id="x1", columns={"canvas_id": "1002"}), points=2.0),
    ]
    made = filled(found, former={"new": ["S-1"]})
    assert made.notes == []
    after = column(made.text)
    assert (after["Lovelace, Ada"], after["Late, Student"]) == ("1", "2")
    alone = filled(found[1:], None, canvas_id=1).text
    assert alone.splitlines()[2] == ",1002,x1,,,2"


NEW = "Canvas would create a new assignment"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"title": "Homework 2"}, NEW),
        ({"canvas_id": 43}, NEW),
        ({"title": "Homework 1 (42)"}, NEW),
        ({"exported": None}, f"{NEW}; write canvas_id"),
        ({"exported": TWICE}, "has 2 columns .*: write canvas_id, the assignment's number"),
        ({"exported": HALF}, "out of 10 points, ours out of 20: write canvas_points"),
        *(
            ({"exported": text}, "a gradebook that Canvas exported|is not valid CSV")
            for text in ("", "name,id\n", "Student\n", "\x00", f"Student,ID,{'x' * 200_000}")
        ),
        (
            {"exported": "Student,ID,Homework 1 (42)\nA,1,\nB,9.0E+03,\n"},
            "export:3: a spreadsheet damaged the id",
        ),
    ],
    ids=range(12),
)
def test_what_could_change_other_grades_is_refused(given, said):
    with pytest.raises(UsageError, match=said):
        filled(**given)


def test_students_are_found_by_each_identity():
    """The number in Canvas tells two assignments of one title apart."""
    found = [
        standing(Student(id="1001"), points=1.0),
        standing(Student(id="s-2"), points=2.0),
        standing(Student(id="x", email="O1"), points=3.0),
        standing(Student(id="y", columns={"netid": "S-4"}), points=4.0),
        standing(Student(id="z", columns={"SIS Login ID": "abcdef"}), points=5.0),
    ]
    made = filled(found, TWICE, canvas_id=42)
    changes = {"Lovelace, Ada": "1", "Late, Student": "2", "Miss": "4", "Student, Test": "5"}
    assert column(made.text) == column(TWICE) | changes
    assert ["x is excused in Canvas and stays excused"] == made.notes


def test_a_number_of_another_kind_is_nobodys_id():
    """A seat number is not an id, and a roster's SIS column takes precedence over its ids."""
    found = [
        standing(Student(id="a", columns={"seat": "1001"}), points=1.0),
        standing(Student(id="S-2", columns={"SIS User ID": "S-4"}), points=2.0),
    ]
    made = filled(found)
    assert column(made.text) == column(EXPORTED) | {"Miss": "2"}
    assert ["a is not in the file from Canvas"] == made.notes


def test_nobody_gets_points_from_a_doubtful_row():
    """A row that matches two students, or two rows that match one student, stay unchanged."""
    for students, note in (
        (
            [Student(id="1001"), Student(id="b", email="ada@x.org")],
            "row 4 of the file from Canvas matches several students: 1001, b",
        ),
        (
            [Student(id="1002", email="ada@x.org")],
            "rows 4, 5 of the file from Canvas all match 1002",
        ),
        # A team's address.
        ([Student(id=name, email="ada@x.org") for name in "ab"], "a is not in the file from"),
    ):
        made = filled([standing(one, points=1.0) for one in students])
        assert cells(EXPORTED) == cells(made.text)
        assert made.notes[0].startswith(note)


def test_without_an_export_the_id_makes_the_column():
    made = filled(exported=None, canvas_id=42)
    assert made.text.splitlines()[:4] == [
        "Student,ID,SIS User ID,SIS Login ID,Section,Homework 1 (42)",
        "    Points Possible,,,,,20",
        "Ada,,ada,ada@x.org,A,17.5",
        "Late,,late,late@x.org,,5.3333",
    ]
    assert ["12", "", "", "", ""] == [row[5] for row in cells(made.text)[4:]]
    sis = "the roster's ids are in the column SIS User ID: compare them with Canvas'"
    assert [sis] == made.notes
    assert "17.5" == column(filled(exported=made.text, canvas_id=42).text, 5)["Ada"]


@pytest.mark.parametrize(
    ("given", "row", "notes"),
    [
        # A roster with a column of Canvas' gradebook is from Canvas, so its ids are Canvas' ids.
        ({"columns": {"SIS User ID": "S-1", "SIS Login ID": "al"}}, "Ada,1001,S-1,al,,1", []),
        ({"columns": {"Quiz (77)": "3"}}, "Ada,1001,,ada@x.org,,1", []),
        # Canvas refuses students that it does not know.
        ({"listed": False}, None, ["Ada (1001) is not in the roster and was left out"]),
    ],
)
def test_without_an_export_the_rosters_columns_are_used(given, row, notes):
    made = filled([standing(student("Ada", id="1001", **given), points=1.0)], None, canvas_id=1)
    _, _, *rows = made.text.splitlines()
    assert ([row] if row else [], notes) == (rows, made.notes)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_reach_canvas_as_text(text):
    """Names are escaped in a new file and in notes, and stay unchanged in an export."""
    one = standing(Student(id=text, name=text), points=1.0)
    made = filled([one], None, canvas_id=1)
    assert 3 == len(cells(made.text))
    assert not any(cell.lstrip().startswith(STARTS) for cell in cells(made.text)[2])
    notes = "".join(filled([one]).notes)
    assert {c for c in notes if not c.isprintable()} <= set(HARMLESS)
    file = io.StringIO(newline="")
    lines = [["Student", "ID", "T (1)"], [text, "5", ""], ["Ada", "ada", ""]]
    csv.writer(file).writerows(lines)  # the writer quotes every kind of line end
    kept = filled([standing("Ada", points=2.0)], exported=file.getvalue(), title="T")
    assert [text, "5", ""] == cells(kept.text)[1]
    assert ["Ada", "ada", "2"] == cells(kept.text)[2]


# --- Gradescope's export of scores ----------------------------------------------------------------


# The columns of an export; those after Email differ among assignments.
HEADER = (
    "First Name,Last Name,SID,Email,Sections,Total Score,Max Points,Status,Submission ID,"
    "Submission Time,Lateness (H:M:S)"
)


def exported(tmp_path, *rows, header=HEADER):
    path = tmp_path / "scores.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8-sig")
    return read(path)


def ours(name, points, **given):
    who = Student(id=name, email=f"{name}@x.edu")
    state = State.MISSING if points is None else State.GRADED
    return Standing(**{"student": who, "state": state, "points": points, "max_score": 100} | given)


def test_equal_points_are_no_difference(tmp_path):
    """Two decimals of Gradescope are as good as ours; a student without points has none there."""
    rows = exported(
        tmp_path,
        "Ada,L,ada,ada@x.edu,,66.67,100.0,Graded,1,2026-06-25 13:16:26 -0600,00:00:00",
        "Bob,B,,BOB@x.edu,,8.0,100.0,Graded,2,2026-06-25 13:16:26 -0600,00:00:00",
        "Cy,C,cy,cy@x.edu,,,100.0,Missing,,,",
        "",
    )
    assert 3 == len(rows)
    assert [] == differences([ours("ada", 66.666667), ours("bob", 8.0), ours("cy", None)], rows)


def test_each_kind_of_difference_is_told(tmp_path):
    rows = exported(
        tmp_path,
        "Ada,L,ada,,,80.0,100.0,Graded,1,,",
        "Bob,B,bob,,,0.0,100.0,Graded,2,,",
        "Eve,E,eve,,,5,100.0,Graded,3,,",
        "Ada,L,,ada@x.edu,,80.0,100.0,Graded,4,,",
        "Cy,C,cy,,,,100.0,Missing,,,",
    )
    found = differences(
        [ours("ada", 85.5), ours("bob", None), ours("cy", 3.0), ours("dan", 1.0), ours("x", None)],
        rows,
    )
    assert found == [
        ScoreDifference("ada", 80.0, 85.5),
        ScoreDifference("bob", 0.0, None, "missing"),
        ScoreDifference("Eve E", 5.0, None, "only in Gradescope"),
        ScoreDifference("ada", 80.0, 85.5, "lines 2 and 5 of the file are the same student"),
        ScoreDifference("cy", None, 3.0),
        ScoreDifference("dan", None, 1.0, "only in the gradebook"),
    ]
    assert status_texts.compared(found, len(rows)).splitlines()[:3] == [
        "5 rows of Gradescope's file; 6 differences",
        "  ada    Gradescope   80.00  ours   85.50",
        "  bob    Gradescope    0.00  ours    none  missing",
    ]


def test_one_address_of_two_students_is_no_guess(tmp_path):
    rows = exported(tmp_path, "Ada,L,,same@x.edu,,80.0,100.0,Graded,1,,")
    two = [ours(i, 80.0, student=Student(id=i, email="same@x.edu")) for i in "ab"]
    assert "in the gradebook several times" == differences(two, rows)[0].why


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("Student,ID,SIS User ID",), "is not an export of scores from Gradescope"),
        ((HEADER, "Ada,L,ada,,,many,100"), r"scores\.csv:2: Total Score is many; expected a num"),
        ((HEADER, "Ada,L,ada,,,nan,100"), "Total Score is nan"),
        ((HEADER, f'Ada,L,"{"x" * 200_000}"'), "is not valid CSV"),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path, rows, said):
    with pytest.raises(UsageError, match=said):
        exported(tmp_path, *rows[1:], header=rows[0])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_printed_on_their_line(tmp_path, text):
    safe = text.encode("utf-8", "replace").decode().replace("\0", "")
    file = io.StringIO(newline="")
    csv.writer(file).writerow([safe, safe, f"s{safe}", "an@address", safe, "5"])
    rows = exported(tmp_path, file.getvalue().removesuffix("\r\n"))
    who = Student(id=text, name=text)
    said = status_texts.compared(differences([ours(text, 3.0, student=who)], rows), 1)
    assert 3 == len(said.splitlines())
    assert {c for c in said if not c.isprintable()} <= {"\n", *HARMLESS}
