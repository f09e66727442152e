"""Gradescope's export of scores, compared with a class's points."""

import csv
import io

import pytest

from grader.base.errors import UsageError
from grader.classroom import texts
from grader.classroom.gradescope_scores import ScoreDifference, differences, read
from grader.classroom.records import Standing, State, Student
from tests.grader.report.samples import HARMLESS, HOSTILE

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
    assert texts.compared(found, len(rows)).splitlines()[:3] == [
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
    said = texts.compared(differences([ours(text, 3.0, student=who)], rows), 1)
    assert 3 == len(said.splitlines())
    assert {c for c in said if not c.isprintable()} <= {"\n", *HARMLESS}
