"""A term of a small course, from an empty folder, as a teaching assistant types it.

Two assignments share two late days. relu gives 1 point and softmax 2, of which the test of large
scores gives one. Each late day costs 25 %. Every expected number is a literal, and a comment has
its arithmetic: the grader computes none of them.
"""

import csv
import json
import re
import shlex
import zipfile

import pytest

from tests.grader import small_courses

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
FROM_GRADESCOPE = """\
First Name,Last Name,SID,Email,Total Score,Max Points,Status
Ada,Lovelace,ada,ada@uni.example,3.0,3.0,Graded
Bob,Byron,bob,bob@uni.example,2.0,3.0,Graded
Cyd,Clark,cyd,cyd@uni.example,1.5,3.0,Graded
Daniel,Dorn,d7,dan@uni.example,2.25,3.0,Graded
Eve,Ems,eve,eve@uni.example,2.0,3.0,Graded
Fay,Fox,fay,fay@uni.example,,3.0,Missing
"""
# Changes of the reference. Each mistake costs 1 point.
RELU_OF_ABS = ("max(0.0, n)", "abs(n)")
NOT_SHIFTED = ("n - max(x)", "n")
HW1 = "--gradebook hw1.sqlite --course hw1"


class Term:
    def __init__(self, folder, typed):
        self.folder, self._typed = folder, typed
        (folder / "roster.csv").write_text(ROSTER)

    def new(self, title, *, canvas_id, due):
        small_courses.with_lists(self.folder / title)
        rules = POLICY.format(title=title, canvas_id=canvas_id, due=due)
        (self.folder / title / "policy.toml").write_text(rules)
        (self.folder / f"{title}_in").mkdir()

    def hand_in(self, title, name, *changes):
        """Write a student's zip: the reference with these mistakes."""
        text = small_courses.LISTS
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        with zipfile.ZipFile(self.folder / f"{title}_in" / f"{name}.zip", "w") as archive:
            archive.writestr("assignment/activations.py", text)

    def __call__(self, line, *, code=0):
        """Run a command; return all that it prints."""
        got, said = self._typed.all(*shlex.split(line))
        assert got == code, f"$ grader {line}\n{said}"
        return said

    def status(self, title):
        """The first line of the status, and each student's points, attempt and lateness."""
        said = self(f"status {title}.sqlite --course {title} --verbose").splitlines()
        top = next(place for place, line in enumerate(said) if line.startswith("student "))
        starts = [match.start() for match in re.finditer(r"\S+", said[top])]
        rows = {}
        for line in said[top + 1 :]:
            if line.startswith("regrade requests"):
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
@pytest.mark.usefixtures("processes_start_at_once")
def test_a_term_from_an_empty_folder(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    term = Term(tmp_path, typed)
    hand_in_on_time_and_late(term)
    hand_in_twice(term)
    extend_deadlines(term)
    tidy_up_the_students(term)
    export_the_first_assignment(term)
    comment_and_answer(term)
    regrade_after_a_change_of_a_test(term)
    give_points_by_hand(term)
    share_late_days_with_the_second_assignment(term)
    export_the_second_assignment(term)
    compare_with_gradescope(term)


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
    """A second attempt counts if it costs no penalty; a file that cannot be read is refused."""
    term.hand_in("hw1", "dan@2026-11-02T07-30-00Z")
    term.hand_in("hw1", "al99@2026-11-01T05-00-00Z", RELU_OF_ABS)
    (term.folder / "hw1_in" / "gus@2026-10-31T12-00-00Z.zip").write_bytes(b"PK, not a zip")
    said = term(f"batch hw1_in {HW1} --jobs 1 --isolation none --seed 1", code=2)
    assert "the seed: 0, now 1" in said
    said = term(f"batch hw1_in {HW1} --jobs 1 --isolation none")
    assert "8 submissions of 8 students, 3 of them new; 0 to grade" in said
    assert "0 of them new; 0 to grade" in term(f"batch hw1_in {HW1} --jobs 1 --isolation none")
    first, rows = term.status("hw1")
    # (3 + 2 + 2 + 1.5 + 3 + 0.5) / 6 = 12 / 6
    assert first == "8 students: 6 graded, 1 missing, 1 refused; mean 2.00; 2 late"
    assert (rows["dan"], rows["al99"]) == ("graded | 3.00 | 2 of 2", "graded | 2.00 | 1 of 1")
    assert rows["gus"] == "refused |  | 1 of 1"
    said = term(f"show 'Dan Dorn' {HW1}")
    assert "attempt 2 counts: the latest of 2 attempts that costs no late penalty" in said
    assert "late days  1 of 2 used" in said
    assert "neither a zip nor a tar.gz" in term(f"show gus {HW1}")


def extend_deadlines(term):
    """One student at once, and several from a file, which a dry run shows first."""
    term(f"extend fay {HW1} --until 2026-11-04T23:59:00-08:00 --reason ill --by ta")
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
    said = term(f"extend --from until.csv {HW1} --by ta")
    assert (said.startswith(shown), "nothing is written; --apply writes this" in said) == (
        True,
    ) * 2
    assert term.status("hw1")[1]["cyd"] == "graded | 1.50 | 1 of 1 | 2 d, -50 %"
    assert term(f"extend --from until.csv {HW1} --by ta --apply").startswith(shown)
    first, rows = term.status("hw1")
    # fay is on time now, so 1; (3 + 2 + 2 + 2.25 + 3 + 1) / 6 = 13.25 / 6 = 2.2083
    assert first == "8 students: 6 graded, 1 missing, 1 refused; mean 2.21; 1 late"
    assert rows["fay"] == "graded | 1.00 | 1 of 1"
    assert rows["cyd"] == "graded | 2.25 | 1 of 1 | 1 d, -25 %"
    assert "late days  0 of 2 used" in term(f"show bob {HW1}")  # the free day is returned


def tidy_up_the_students(term):
    """Merge, rename and remove students; each is undone, too."""
    before = term.status("hw1")
    said = term(f"merge-students al99 --into ada {HW1} --by ta")
    assert "before:  ada Ada Lovelace: 3.00 of 3\nada Ada Lovelace: 2.00 of 3\n" in said
    term(f"merge-students ada --undo {HW1} --by ta")
    assert term.status("hw1") == before
    term(f"merge-students al99 --into 'ada lovelace' {HW1} --by ta")
    term(f"remove-student gus --reason 'not in the course' {HW1} --by ta")
    term(f"remove-student gus --undo {HW1} --by ta")
    assert term.status("hw1")[1]["gus"] == "refused |  | 1 of 1"
    term(f"remove-student gus --reason 'not in the course' {HW1} --by ta")
    term(f"rename-student dan --id d7 --name 'Daniel Dorn' {HW1} --by ta")
    assert term.status("hw1") == (
        # (2 + 2 + 2.25 + 3 + 1) / 5 = 10.25 / 5 = 2.05
        "6 students: 5 graded, 1 missing; mean 2.05; 1 late",
        {
            "ada": "graded | 2.00 | 2 of 2",  # the later attempt: 3 - 1
            "bob": "graded | 2.00 | 1 of 1",
            "cyd": "graded | 2.25 | 1 of 1 | 1 d, -25 %",
            "d7": "graded | 3.00 | 2 of 2",
            "eve": "missing",
            "fay": "graded | 1.00 | 1 of 1",
        },
    )


def export_the_first_assignment(term):
    """A spreadsheet, Canvas, Gradescope and the late days have the points of the status."""
    exports = "--csv hw1.csv --canvas canvas.csv --gradescope json --late-days late_days.csv"
    term(f"export hw1.sqlite --course hw1 {exports} --markdown md --html html --junit xml")
    assert len(list((term.folder / "xml").iterdir())) == 5
    columns = ("state", "points", "score", "penalty", "days_late", "relu", "softmax")
    assert term.table("hw1.csv", *columns) == {
        "ada": ["graded", "2", "2", "0", "0", "0", "2"],
        "bob": ["graded", "2", "2", "0", "0", "1", "1"],
        "cyd": ["graded", "2.25", "3", "25", "1", "1", "2"],
        "d7": ["graded", "3", "3", "0", "0", "1", "2"],
        "eve": ["missing", "", "", "0", "0", "", ""],
        "fay": ["graded", "1", "1", "0", "0", "0", "1"],
    }
    assert term.lines("canvas.csv") == [
        "Student,ID,SIS User ID,SIS Login ID,Section,hw1 (77)",
        "    Points Possible,,,,,3",
        "Ada Lovelace,,ada,ada@uni.example,morning,2",
        "Bob Byron,,bob,bob@uni.example,morning,2",
        "Cyd Clark,,cyd,cyd@uni.example,evening,2.25",
        "Daniel Dorn,,d7,dan@uni.example,evening,3",
        "Eve Ems,,eve,eve@uni.example,evening,",
        "Fay Fox,,fay,fay@uni.example,evening,1",
    ]
    scores = {
        path.stem: json.loads(path.read_text())["score"]
        for path in (term.folder / "json").iterdir()
    }
    assert scores == {"ada": 2, "bob": 2, "cyd": 2.25, "d7": 3, "fay": 1}
    assert term.lines("late_days.csv") == ["student,assignment,days", "cyd,hw1,2", "d7,hw1,1"]
    report = (term.folder / "md" / "cyd.md").read_text()
    assert report.startswith("## 2.25 of 3 points\n")
    assert "The tests gave 3 points; 2.25 points count." in report
    assert "2.25 of 3 points" in (term.folder / "html" / "cyd.html").read_text()


def comment_and_answer(term):
    """A regrade request is open until it is answered; an answer alone changes no points."""
    term(f"comment bob {HW1} --problem softmax --text 'Mind large scores.' --name large")
    term(f"comment fay {HW1} --problem softmax --again large")
    test = "--problem softmax --test test_softmax_of_large_scores"
    said = term(f"request bob {HW1} {test} --text 'Mine is the formula of the handout.'")
    assert said.startswith("regrade request 1: bob, attempt 1: softmax, test_softmax_of_large_")
    assert "regrade requests: 1 open, 0 answered" in term("status hw1.sqlite --course hw1")
    said = term(f"answer 1 {HW1} --accept --reason 'These scores are too large.'")
    assert "bob Bob Byron: 2.00 of 3\nno points changed: correct the test" in said
    assert "regrade requests: 0 open, 1 answered" in term("status hw1.sqlite --course hw1")
    assert "comment 2 on softmax: Mind large scores." in term(f"show fay {HW1}")
    assert "accepted. These scores are too large." in " ".join(term(f"show bob {HW1}").split())


def regrade_after_a_change_of_a_test(term):
    """Scores near 10 do not overflow, so that who did not shift them gains the lost point."""
    before, hidden = term.status("hw1"), term.folder / "hw1/tests/hidden/softmax/test_hidden.py"
    text = hidden.read_text()
    assert "1000 + rng" in text
    hidden.write_text(text.replace("1000 + rng", "10 + rng"))
    regrade = "regrade hw1.sqlite --course hw1 --isolation none"
    changes = (
        # 10.25 + 1 + 1 = 12.25
        "6 students: 2 gain, 0 lose, 0 change otherwise; "
        "points of the class before 10.25, after 12.25\n"
        "  softmax, test_softmax_of_large_scores: 2 gain points\n"
        "  bob: 2.00, then 3.00 (+1.00)\n"
        "      softmax, test_softmax_of_large_scores: failed, now passed\n"
        "  fay: 1.00, then 2.00 (+1.00)\n"
    )
    assert changes in term(f"{regrade} --jobs 1")
    assert changes in term("diff hw1.sqlite --course hw1")
    assert term.status("hw1") == before
    assert changes in term(f"{regrade} --apply --by ta --jobs 1")
    first, rows = term.status("hw1")
    # (2 + 3 + 2.25 + 3 + 2) / 5 = 12.25 / 5 = 2.45
    assert first == "6 students: 5 graded, 1 missing; mean 2.45; 1 late"
    assert (rows["bob"], rows["fay"]) == ("graded | 3.00 | 1 of 1", "graded | 2.00 | 1 of 1")
    assert f"`grader {regrade} --apply`" in term("regrade hw1.sqlite --course hw1 --undo --by ta")
    assert term.status("hw1") == before
    term(f"{regrade} --apply --by ta --jobs 1")
    assert term.status("hw1") == (first, rows)


def give_points_by_hand(term):
    """More points than there are, and points for nothing, are refused; a late penalty stays."""
    before = term.status("hw1")
    for words, said in (
        ("bob --points 500", "--points 500: the assignment gives at most 3; --anyway"),
        ("bob --points 2.5 --problem softmax", "softmax gives at most 2; --anyway"),
        ("eve --points 2", "Eve Ems (eve) handed in nothing; --anyway"),
    ):
        assert said in term(f"override {words} {HW1} --reason oral --by ta", code=2)
    assert term.status("hw1") == before
    term(f"override eve --points 2 {HW1} --reason oral --by ta --anyway")
    # 2.25 + (1 - 2) · (1 - 0.25) = 1.5
    said = term(f"override cyd --points 1 --problem softmax {HW1} --reason oral --by ta")
    assert said.startswith("cyd Cyd Clark: 1.50 of 3; 1 day late, which costs 25 %; 1 for softmax")
    first, rows = term.status("hw1")
    # (2 + 3 + 1.5 + 3 + 2 + 2) / 6 = 13.5 / 6 = 2.25
    assert first == "6 students: 6 graded; mean 2.25; 1 late; 2 with points by hand"
    assert rows["eve"] == "graded | 2.00"
    term(f"override eve --remove {HW1} --reason 'not the oral exam' --by ta")
    term(f"override cyd --remove --problem softmax {HW1} --reason 'not the oral exam' --by ta")
    assert term.status("hw1") == before


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
    term(f"rename-student dan --id d7 {words} --by ta")
    assert "no student here has" not in term("status hw2.sqlite --course hw2")
    assert term.status("hw2") == (
        # (3 + 2 + 1.5 + 2.25 + 1.5) / 5 = 10.25 / 5 = 2.05
        "6 students: 5 graded, 1 missing; mean 2.05; 3 late",
        {
            "ada": "graded | 3.00 | 1 of 1",
            "bob": "graded | 2.00 | 1 of 1",  # 2 days late, both free; 3 - 1 = 2
            # 1 day late, none free: (3 - 1) · (1 - 0.25) = 1.5
            "cyd": "graded | 1.50 | 1 of 1 | 1 d, -25 %",
            # 2 days late, 1 of them free: 3 · (1 - 0.25) = 2.25
            "d7": "graded | 2.25 | 1 of 1 | 1 d, -25 %",
            # 3 days late, 2 of them free: (3 - 1) · (1 - 0.25) = 1.5
            "eve": "graded | 1.50 | 1 of 1 | 1 d, -25 %",
            "fay": "missing",
        },
    )
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
    assert term.table("hw2.csv", "points", "score", "penalty") == {
        "ada": ["3", "3", "0"],
        "bob": ["2", "2", "0"],
        "cyd": ["1.5", "2", "25"],
        "d7": ["2.25", "3", "25"],
        "eve": ["1.5", "2", "25"],
        "fay": ["", "", "0"],
    }
    assert term.status("hw1") == hw1


def compare_with_gradescope(term):
    """Scores that Gradescope exported are those of hw2, except one without its late penalty."""
    (term.folder / "scores.csv").write_text(FROM_GRADESCOPE)
    said = term("diff hw2.sqlite --course hw2 --gradescope scores.csv", code=1)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines == [
        "6 rows of Gradescope's file; 1 difference",
        "eve Eve Ems Gradescope 2.00 ours 1.50",  # without the late penalty
    ]
