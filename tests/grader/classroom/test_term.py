"""A term of a small course, from an empty folder, as a teaching assistant types it.

Two assignments share two late days. relu gives 1 point and softmax 2, of which the test of large
scores gives one. Each late day costs 25 %. Every expected number is a literal, and a comment has
its arithmetic: the grader computes none of them.
"""

import csv
import json
import re

import pytest

from tests.grader import small_courses
from tests.grader.classroom.a_class import Desk, hand_in

# The clocks of Los Angeles go back an hour on 1 November: the first late day of hw1 has 25 hours.
# hw1 is due at 06:59 UTC on 1 November; its late days end at 07:59 UTC on the 2nd, 3rd, 4th, 5th.
# hw2 is due at 07:59 UTC on 21 November, and its late days end at that time, too.
POLICY = """\
[policy]
title = "{title}"
canvas_id = {canvas_id}
time_zone = "America/Los_Angeles"
per_cent_a_day = 25
late_days = 2
late_days_file = "../late_days.csv"
[policy.deadlines]
default = {due}
"""
ROSTER = """\
id,name,email,section
ada,Ada Lovelace,ada@uni.example,morning
bob,Bob Byron,bob@uni.example,morning
cyd,Cyd Clark,cyd@uni.example,evening
dan,Dan Dorn,dan@uni.example,evening
eve,Eve Ems,eve@uni.example,evening
fay,Fay Fox,fay@uni.example,evening
"""
FROM_CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,hw1 (77),hw2 (78)
    Points Possible,,,,,3,3
"Lovelace, Ada",501,ada,ada@uni.example,morning,2,
"Ems, Eve",505,eve,eve@uni.example,evening,,EX
"Clark, Cyd",503,cyd,cyd@uni.example,evening,2.25,
"""
# Changes of the reference. Each mistake costs 1 point.
RELU_OF_ABS = ("max(0.0, n)", "abs(n)")
NOT_SHIFTED = ("n - max(x)", "n")
HW1 = "--gradebook hw1.sqlite --course hw1"


class Term(Desk):
    def new(self, title, *, canvas_id, due):
        small_courses.with_lists(self.folder / title)
        rules = POLICY.format(title=title, canvas_id=canvas_id, due=due)
        self.write(f"{title}/policy.toml", rules)
        (self.folder / f"{title}_in").mkdir()

    def hand_in(self, title, name, *changes):
        text = small_courses.LISTS
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        hand_in(self.folder / f"{title}_in", name, text)

    def status(self, title):
        """The first line of the status, and each student's points, attempt and lateness."""
        said = self(f"status {title}.sqlite --course {title} --verbose").splitlines()
        top = next(place for place, line in enumerate(said) if line.startswith("student "))
        starts = [match.start() for match in re.finditer(r"\S+", said[top])]
        rows = {}
        for line in said[top + 1 :]:
            if line.startswith("grader: "):  # what is printed to stderr
                break
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            rows[cells[0].split()[0]] = " | ".join(cells[2:6]).rstrip(" |")
        return said[0], rows

    def table(self, name, *columns):
        with (self.folder / name).open(newline="") as file:
            return {row["id"]: [row[one] for one in columns] for row in csv.DictReader(file)}

    def lines(self, name):
        return (self.folder / name).read_text().splitlines()


@pytest.mark.slow
@pytest.mark.usefixtures("grading")
def test_a_term_from_an_empty_folder(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    term = Term(tmp_path, typed)
    term.write("roster.csv", ROSTER)
    hand_in_on_time_and_late(term)
    hand_in_twice(term)
    extend_deadlines(term)
    export_the_first_assignment(term)
    regrade_after_a_change_of_a_test(term)
    share_late_days_with_the_second_assignment(term)
    export_the_second_assignment(term)


def hand_in_on_time_and_late(term):
    """Free late days come first; the day on which the clocks change has 25 hours."""
    term.new("hw1", canvas_id=77, due="2026-10-31T23:59:00")
    term.hand_in("hw1", "ada@2026-10-30T18-00-00Z")
    term.hand_in("hw1", "bob@2026-11-02T07-30-00Z", NOT_SHIFTED)
    term.hand_in("hw1", "cyd@2026-11-05T07-00-00Z")
    term.hand_in("hw1", "dan@2026-10-29T12-00-00Z", RELU_OF_ABS)
    term.hand_in("hw1", "fay@2026-11-05T07-00-00Z", RELU_OF_ABS, NOT_SHIFTED)
    said = term(f"batch hw1_in {HW1} --roster roster.csv --jobs 1 --isolation none")
    assert "5 submissions of 6 students, 5 of them new; 4 to grade" in said  # ada's is cyd's
    assert term.status("hw1") == (
        # (3 + 2 + 1.5 + 2 + 0.5) / 5 = 9 / 5 = 1.8
        "6 students: 5 graded, 1 missing; mean 1.80; 2 late",
        {
            "ada": "graded | 3.00 | 1 of 1",
            # 24.5 hours late, within the day of 25 hours: 1 day, which is free; 3 - 1 = 2
            "bob": "graded | 2.00 | 1 of 1",
            # 4 days late, 2 of them free: 3 · (1 - 2 · 0.25) = 1.5
            "cyd": "graded | 1.50 | 1 of 1 | 2 d, -50 %",
            "dan": "graded | 2.00 | 1 of 1",  # 3 - 1
            "eve": "missing",
            # 4 days late, 2 of them free: (3 - 1 - 1) · (1 - 2 · 0.25) = 0.5
            "fay": "graded | 0.50 | 1 of 1 | 2 d, -50 %",
        },
    )
    said = term(f"show BOB {HW1}")
    assert "  deadline  2026-10-31T23:59-07:00\n  late days  1 of 2 used\n" in said
    assert "  attempt 1  2026-11-01T23:30:00-08:00  bob@2026-11-02T07-30-00Z.zip  2.00" in said


def hand_in_twice(term):
    """A second attempt counts if it costs no penalty."""
    term.hand_in("hw1", "dan@2026-11-02T07-30-00Z")
    said = term(f"batch hw1_in {HW1} --jobs 1 --isolation none")
    assert "6 submissions of 6 students, 1 of them new; 0 to grade" in said
    assert "0 of them new; 0 to grade" in term(f"batch hw1_in {HW1} --jobs 1 --isolation none")
    first, rows = term.status("hw1")
    # (3 + 2 + 1.5 + 3 + 0.5) / 5 = 10 / 5
    assert first == "6 students: 5 graded, 1 missing; mean 2.00; 2 late"
    assert rows["dan"] == "graded | 3.00 | 2 of 2"
    assert "late days  1 of 2 used" in term(f"show 'Dan Dorn' {HW1}")


def extend_deadlines(term):
    """One student at once, and several from a file, which a dry run shows first."""
    term(f"extend fay {HW1} --until 2026-11-04T23:59:00-08:00 --reason ill")
    (term.folder / "until.csv").write_text(
        "student,until,reason\n"
        "Cyd Clark,2026-11-01T23:59:00-08:00,power cut\n"
        "bob@uni.example,2026-11-02T23:59:00-08:00,power cut\n"
    )
    shown = (
        "- cyd Cyd Clark: 1.50 of 3; 2 days late, which costs 50 %\n"
        # 3 days after the new deadline, 2 of them free: 3 · (1 - 0.25) = 2.25
        "+ cyd Cyd Clark: 2.25 of 3; 1 day late, which costs 25 %\n"
        "- deadline: 2026-10-31T23:59:00-07:00\n+ deadline: 2026-11-01T23:59:00-08:00\n"
        "  bob Bob Byron: 2.00 of 3\n"
        "- deadline: 2026-10-31T23:59:00-07:00\n+ deadline: 2026-11-02T23:59:00-08:00\n"
    )
    extend = f"extend --from until.csv {HW1}"
    assert term(extend).startswith(f"{shown}nothing is written; --apply writes this\n")
    assert term.status("hw1")[1]["cyd"] == "graded | 1.50 | 1 of 1 | 2 d, -50 %"
    assert term(f"{extend} --apply").startswith(f"{shown}this is written\n")
    assert "late days  0 of 2 used" in term(f"show bob {HW1}")  # the free day is returned
    term(f"rename-student dan --id d7 --name 'Daniel Dorn' {HW1}")
    first, rows = term.status("hw1")
    # fay is on time now; (3 + 2 + 2.25 + 3 + 1) / 5 = 11.25 / 5 = 2.25
    assert first == "6 students: 5 graded, 1 missing; mean 2.25; 1 late"
    assert ("dan" in rows, rows["d7"]) == (False, "graded | 3.00 | 2 of 2")
    assert rows["cyd"] == "graded | 2.25 | 1 of 1 | 1 d, -25 %"
    assert rows["fay"] == "graded | 1.00 | 1 of 1"


def export_the_first_assignment(term):
    """A spreadsheet, Canvas, Gradescope and the late days have the points of the status."""
    exports = "--csv hw1.csv --canvas canvas.csv --gradescope json --late-days late_days.csv"
    term(f"export hw1.sqlite --course hw1 {exports} --markdown md --html html")
    assert len(list((term.folder / "html").iterdir())) == 5
    columns = ("state", "points", "score", "penalty", "days_late", "relu", "softmax")
    table = term.table("hw1.csv", *columns)
    assert [*table] == ["ada", "bob", "cyd", "d7", "eve", "fay"]
    assert table["bob"] == ["graded", "2", "2", "0", "0", "1", "1"]
    assert table["cyd"] == ["graded", "2.25", "3", "25", "1", "1", "2"]
    assert table["eve"] == ["missing", "", "", "0", "0", "", ""]
    header, possible, *rows = term.lines("canvas.csv")
    assert header == "Student,ID,SIS User ID,SIS Login ID,Section,hw1 (77)"
    assert possible == "    Points Possible,,,,,3"
    assert rows[2] == "Cyd Clark,,cyd,cyd@uni.example,evening,2.25"
    assert [row.rsplit(",", 1)[1] for row in rows] == ["3", "2", "2.25", "3", "", "1"]
    scores = {p.stem: json.loads(p.read_text())["score"] for p in (term.folder / "json").iterdir()}
    assert scores == {"ada": 3, "bob": 2, "cyd": 2.25, "d7": 3, "fay": 1}
    assert term.lines("late_days.csv") == ["student,assignment,days", "cyd,hw1,2", "d7,hw1,1"]
    report = (term.folder / "md" / "cyd.md").read_text()
    assert report.startswith("## 2.25 of 3 points\n")
    assert "The tests gave 3 points; 2.25 points count." in report
    assert "2.25 of 3 points" in (term.folder / "html" / "cyd.html").read_text()


def regrade_after_a_change_of_a_test(term):
    """Scores near 10 do not overflow, so that who did not shift them gains the lost point."""
    before, hidden = term.status("hw1"), term.folder / "hw1/tests/hidden/softmax/test_hidden.py"
    text = hidden.read_text()
    assert "1000 + rng" in text
    hidden.write_text(text.replace("1000 + rng", "10 + rng"))
    regrade = "regrade hw1.sqlite --course hw1 --isolation none"
    changes = (
        # 11.25 + 1 + 1 = 13.25
        "6 students: 2 gain, 0 lose, 0 change otherwise; "
        "points of the class before 11.25, after 13.25\n"
        "  softmax, test_softmax_of_large_scores: 2 gain points\n"
        "  bob: 2.00, then 3.00 (+1.00)\n"
        "      softmax, test_softmax_of_large_scores: failed, now passed\n"
        "  fay: 1.00, then 2.00 (+1.00)\n"
        "      softmax, test_softmax_of_large_scores: failed, now passed\n"
    )
    still = f"{changes}the old results still count; --apply changes that\n"
    assert still in term(f"{regrade} --jobs 1")
    assert changes in term("diff hw1.sqlite --course hw1")
    assert term.status("hw1") == before
    undo = "`grader regrade hw1.sqlite --course hw1 --undo` reverts that"
    said = term(f"{regrade} --apply --jobs 1")
    assert f"{changes}the new results count; {undo}\n" in said
    was = f"{changes}this regrade was applied: the new results count\n"
    assert was in term("diff hw1.sqlite --course hw1")
    first, rows = term.status("hw1")
    # (3 + 3 + 2.25 + 3 + 2) / 5 = 13.25 / 5 = 2.65
    assert first == "6 students: 5 graded, 1 missing; mean 2.65; 1 late"
    assert (rows["bob"], rows["fay"]) == ("graded | 3.00 | 1 of 1", "graded | 2.00 | 1 of 1")
    assert f"`grader {regrade} --apply`" in term("regrade hw1.sqlite --course hw1 --undo")
    assert term.status("hw1") == before
    term(f"{regrade} --apply --jobs 1")
    assert term.status("hw1") == (first, rows)


def share_late_days_with_the_second_assignment(term):
    """Days that were used in hw1 are missing in hw2, also those of a student with another id."""
    term.new("hw2", canvas_id=78, due="2026-11-20T23:59:00")
    term.hand_in("hw2", "ada@2026-11-21T07-00-00Z")
    term.hand_in("hw2", "bob@2026-11-23T07-00-00Z", NOT_SHIFTED)
    term.hand_in("hw2", "cyd@2026-11-21T20-00-00Z", NOT_SHIFTED)
    term.hand_in("hw2", "dan@2026-11-23T07-00-00Z")
    term.hand_in("hw2", "eve@2026-11-24T06-00-00Z", RELU_OF_ABS)
    words = "--gradebook hw2.sqlite --course hw2"
    said = term(f"batch hw2_in {words} --roster roster.csv --jobs 1 --isolation none")
    assert "late_days.csv has late days of d7, and no student here has this id" in said
    term(f"rename-student dan --id d7 {words}")
    assert "no student here has" not in term("status hw2.sqlite --course hw2")
    first, rows = term.status("hw2")
    # (3 + 2 + 1.5 + 2.25 + 1.5) / 5 = 10.25 / 5 = 2.05
    assert first == "6 students: 5 graded, 1 missing; mean 2.05; 3 late"
    assert rows["bob"] == "graded | 2.00 | 1 of 1"  # 2 days late, both free; 3 - 1 = 2
    # 1 day late, none free: (3 - 1) · (1 - 0.25) = 1.5
    assert rows["cyd"] == "graded | 1.50 | 1 of 1 | 1 d, -25 %"
    # 2 days late, 1 of them free: 3 · (1 - 0.25) = 2.25
    assert rows["d7"] == "graded | 2.25 | 1 of 1 | 1 d, -25 %"
    # 3 days late, 2 of them free: (3 - 1) · (1 - 0.25) = 1.5
    assert rows["eve"] == "graded | 1.50 | 1 of 1 | 1 d, -25 %"
    assert "late days  1 of 2 used, and 1 in other assignments" in term(f"show d7 {words}")


def export_the_second_assignment(term):
    """The file of late days grows, Canvas' own file is filled in, and hw1 stays as it was."""
    hw1 = term.status("hw1")
    (term.folder / "from_canvas.csv").write_text(FROM_CANVAS)
    export = "export hw2.sqlite --course hw2 --late-days late_days.csv"
    for _ in range(2):
        term(f"{export} --canvas filled_in.csv --canvas-export from_canvas.csv --csv hw2.csv")
        assert term.lines("late_days.csv") == [
            "student,assignment,days",
            *("bob,hw2,2", "cyd,hw1,2", "d7,hw1,1", "d7,hw2,1", "eve,hw2,2"),
        ]
    assert [line.rsplit(",", 2)[1:] for line in term.lines("filled_in.csv")] == [
        ["hw1 (77)", "hw2 (78)"],
        ["3", "3"],
        ["2", "3"],
        ["", "EX"],  # excused in Canvas
        ["2.25", "1.5"],
    ]
    assert term.table("hw2.csv", "points", "score", "penalty")["d7"] == ["2.25", "3", "25"]
    assert term.status("hw1") == hw1
