"""Reading a class roster, and matching submissions to its students."""

import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grader.base.errors import UsageError
from grader.classroom.class_records import HandedIn, Student
from grader.classroom.roster import assign, read, same_people


def roster(folder: Path, content: str | bytes) -> Path:
    path = folder / "roster.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value).isprintable()
    return str(caught.value)


def handed_in(key: str, *known_as: str, **more: object) -> HandedIn:
    return HandedIn(**{"path": Path(f"{key}.zip"), "key": key, "known_as": known_as, **more})


def at(day: int) -> datetime:
    return datetime(2026, 10, day, tzinfo=UTC)


ADA = Student(id="007", name="Ada Lovelace", email="ada@x.edu", section="A")


@pytest.mark.parametrize(
    "text",
    [
        "id,name,email,section\n007,Ada Lovelace,ada@x.edu,A\n",
        "SID;Full Name;E-Mail;Sections\n007;Ada Lovelace;ada@x.edu;A\n",
        "Student ID\tFirst Name\tSurname\tEmail Address\tSection\n007\tAda\tLovelace\tada@x.edu\tA",
        '"section","e-mail","name","student_id"\r\n"A","ada@x.edu","Ada\nLovelace"," 007 "\r\n',
        "\n ,,\nUSERNAME,Student,Mail,SECTION\n\n007, Ada  Lovelace ,ada@x.edu,A\n,,,\n\n",
        '"Name";"ID";"Email";"Section"\n"Ada Lovelace";"007";"ada@x.edu";"A"\n',
        "id,name,email,section\r007,Ada Lovelace,ada@x.edu,A\r",
        "sep=;\nid;name;email;section\n007;Ada Lovelace;ada@x.edu;A\n",
        'SEP=|\r\nid|name|email|section\r\n007|"Ada Lovelace"|ada@x.edu|A\r\n',
    ],
)
def test_columns_are_found_by_their_usual_names(tmp_path, text):
    assert [ADA] == read(roster(tmp_path, text))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_is_read_in_each_encoding(tmp_path, encoding):
    text = "id;name\n1;Zoë Ålund\n2;名前\n" + unicodedata.normalize("NFD", "3;Zoë\n")
    students = read(roster(tmp_path, text.encode(encoding)))
    assert ["Zoë Ålund", "名前", "Zoë"] == [student.name for student in students]


def test_other_columns_are_kept(tmp_path):
    (ada,) = read(roster(tmp_path, "id,GitHub,Notes,,Notes\n1,ada-l,x,,y\n"))
    assert {"GitHub": "ada-l", "Notes": "x", "Notes (column 5)": "y"} == ada.columns
    assert [Student(id="1")] == read(roster(tmp_path, "id,name,email\n1\n"))  # a short row


CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Homework 2 (4711),Current Score
,,,,,Manual Posting,
    Points Possible,,,,,100,(read only)
"Doe, Jane",12345,S-99,jdoe,Section 1,88,88.0
"Student, Test",999,,abcdef,Section 1,,
"Ålund, Zoë",23456,S-98,zalund,Section 2 and Section 3,12345,
"""


def test_an_export_of_canvas_gradebook_is_a_roster(tmp_path):
    """Rows that are not students are left out, and the id is Canvas's own."""
    jane, zoe = read(roster(tmp_path, "\ufeff" + CANVAS))
    assert ("12345", "Doe, Jane", "Section 1") == (jane.id, jane.name, jane.section)
    assert ("23456", "Ålund, Zoë", "Section 2 and Section 3") == (zoe.id, zoe.name, zoe.section)
    assert {
        "SIS User ID": "S-99", "SIS Login ID": "jdoe", "Homework 2 (4711)": "88",
        "Current Score": "88.0",
    } == jane.columns  # fmt: skip


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("id,name\n7,Ada\n8,Bob\n7,Cy\n", "has the id 7 twice, in lines 2 and 4"),
        ('id,name\n7,"A\nda"\n\n7,Cy\n', "has the id 7 twice, in lines 2 and 5"),
        ("name,email\nAda,a@x\n", "roster.csv:1 has no column for the id"),
        ("\n7,Ada\n8,Bob\n", "roster.csv:2 has no column for the id"),
        ("Student ID,name\n7,Ada\n,Bob\n", "roster.csv:3 has no Student ID"),
        ("id,name\n", "has a header but no students"),
        (CANVAS.split('"Doe')[0], "has a header but no students"),
        ("", "is empty"),
        ("\n\n,,\n", "is empty"),
        ("id,name\n7,Ada,x\n", "roster.csv:2 has more cells than the header has columns"),
        ("id,e-mail,Email\n7,a,b\n", "roster.csv:1 has two columns named Email"),
        ('id,name\n7,"Ada\n8,Bob\n', "roster.csv:2 is not valid CSV"),
        ("id,name\n7," + "x" * 200_000, "roster.csv:2 is not valid CSV"),
        (b"id,name\n7,Ada\n8,Zo\xeb\n", "roster.csv:3 is not UTF-8 text"),
        (b"PK\x03\x04\0\0id", "roster.csv:1 is not text"),
        (b"\xff\xfei\0d\0\n", "roster.csv:1 is not UTF-8 text"),
        ("id\n\x1b[31m\n\x1b[31m\n", "the id \\x1b[31m twice"),
        ("id\n7\n1.23457E+11\n", "roster.csv:3: a spreadsheet has damaged the id 1.23457E+11"),
        ("id\n1.23457E11\n", "has damaged the id 1.23457E11"),
        ("id\n#N/A\n", "a spreadsheet has damaged the id #N/A"),
        ("sep=;\nid\n1,2e+11\n", "roster.csv:3: a spreadsheet has damaged the id 1,2e+11"),
    ],
    ids=range(21),
)
def test_a_roster_that_cannot_be_right_is_refused_with_its_line(tmp_path, content, sentence):
    assert sentence in refusal(roster(tmp_path, content))


STAFF = "Instructor,TA,TaEnrollment,Non-editing teacher,Reader,Teaching Assistant,Professor"


@pytest.mark.parametrize("role", STAFF.split(","))
def test_rows_of_staff_are_left_out_and_told(tmp_path, role):
    text = f"SID,Name,Role\n1,Ada,Student\n,Tom,{role}\n3,Cy,StudentEnrollment\n4,Taj\n"
    notes = []
    assert ["1", "3", "4"] == [one.id for one in read(roster(tmp_path, text), notes)]
    assert ["1 row of staff left out: Tom"] == notes


JANE = Student(
    id="12345",
    name="Doe, Jane",
    email="Jane@X.edu",
    columns={"SIS Login ID": "jdoe", "Homework 2 (4711)": "42", "Final Score": "97"},
)
ZOE = Student(id="b2", name="Zoë Maria Ålund", email="zoe@x.edu", columns={"GitHub": "zoezoe"})


FOUND = [
    (JANE, [
        *map(handed_in, ("12345", "jane@x.EDU", "JDoe", "doejane", "Jane Doe", "jane_doe")),
        handed_in("0999", "12345"),
        handed_in("0999", email="jane@x.edu"),
        handed_in("0999", student_name="Doe, Jane"),
        handed_in("Jane Doe", student_name="Jane Doe"),
        handed_in("12345", student_name="Nobody", email="other@x.edu"),
    ]),
    (ZOE, [
        *map(handed_in, ("B2", "zoezoe", "Zoe Maria Alund")),
        handed_in(unicodedata.normalize("NFD", "ålundzoëmaria")),
        handed_in("b2", "zoezoe", email="zoe@x.edu", student_name="Zoë Maria Ålund"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("item", "student"), [(item, s) for s, items in FOUND for item in items])
def test_a_submission_finds_its_student(item, student):
    found = assign([item], [JANE, ZOE])
    assert [(student, item)] == found.attempts
    assert [] == found.unknown
    assert [s for s in (JANE, ZOE) if s is not student] == found.missing


CLASS = [
    Student(id="jane-doe", name="Jane Doe"),
    Student(id="jane-roe", name="Jane Roe"),
    Student(id="doe", name="Max Doe"),
    Student(id="cy", name="Cy Young", email="cy@x.edu"),
    Student(id="0042", name="Zoë Ålund", columns={"GitHub": "zz-top", "Team": "hw1"}),
]


PARTS = {
    "jane-doe": ["hw1-jane-doe", "jane-doe_LATE"],
    "jane-roe": ["hw1-cs101-Jane-Roe", "submission of JANE-ROE, 2nd try"],
    "doe": ["hw1-doe"],
    "cy": ["cy.tar", "cy@x.edu (2)", "Copy of cy", "cy young - homework 3", "#cy", "cy_Young_hw1"],
    "0042": [
        *("hw1-zz-top", "0042_hw1_final", "hw1_Alund_Zoe", "Ålund, Zoë - hw1"),
        *("0042.0", "'0042", '="0042"', "\u200b0042"),
    ],
}


@pytest.mark.parametrize(("key", "student"), [(key, s) for s in PARTS for key in PARTS[s]])
def test_a_part_of_a_files_name_is_found_on_the_roster(key, student):
    """The roster says which part names the student; the longest one counts."""
    found = assign([handed_in(key)], CLASS)
    assert [student] == [one.id for one, _ in found.attempts]
    assert "1 name held a student of the roster, such as" in found.notes[0]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("42", "42 is not on the roster, which has 0042: a spreadsheet changes ids"),
        ("cyy", "cyy is not on the roster; did you mean cy?"),
        (
            "jane-doe-jane-roe",
            "jane-doe-jane-roe.zip names jane-doe and jane-roe, and counts for n",
        ),
        ("jane", "jane is not on the roster"),
        ("doejane2", "doejane2 is not on the roster"),
        ("cy_jane-doe", "cy_jane-doe.zip names cy and jane-doe, and counts for neither"),
        ("hw-42", "hw-42 is not on the roster"),
        ("42.0", "42.0 is not on the roster, which has 0042"),
        ("'42", "'42 is not on the roster, which has 0042"),
        ("ｃｙ", "is not on the roster"),
    ],
)
def test_what_is_not_matched_names_the_nearest_id_and_a_way_out(key, told):
    found = assign([handed_in(key)], CLASS)
    assert [False] == [one.listed for one, _ in found.attempts]
    assert told in found.notes[0]
    assert "--layout 'hw1-{id}_{any}.zip'" in found.notes[-1]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Student(id="s0001"), Student(id="9000", columns={"SIS Login ID": "S0001"})),
        (Student(id="007"), Student(id="7")),
        (Student(id="s1"), Student(id="S1")),
        (Student(id="1", name="Doe, Jane"), Student(id="2", name="Jane Doe")),
        (Student(id="1", email="a@x.edu"), Student(id="2", email="A@x.edu")),
        (Student(id="jane_doe"), Student(id="2", name="Jane Doe")),
        (Student(id="9000", columns={"SIS Login ID": "s1"}), Student(id="s1")),
    ],
    ids=range(7),
)
def test_one_student_under_two_ids_is_recognised(before, now):
    others = [Student(id="x", name="Max Roe"), Student(id="y", email="y@x.edu")]
    assert [(before, now)] == same_people([*others, now], [before, Student(id="z", name="Zoë X")])


def test_ids_that_are_alike_are_not_one_student():
    twins = [Student(id="1", name="Jane Doe"), Student(id="2", name="Jane Doe")]
    assert [] == same_people(twins, [Student(id="3", name="Jane Doe"), Student(id="1")])
    assert [] == same_people([Student(id="12", name="A")], [Student(id="120"), Student(id="1200")])


@pytest.mark.parametrize(
    "item",
    [
        *map(handed_in, ("eve", "42", "97", "doejane2", "", "012345")),
        handed_in("jdoe", "zoezoe"),
        handed_in("x", "jane@x.edu", "zoe@x.edu"),
        handed_in("zoe@x.edu", "jdoe"),
        handed_in("jane@x.edu", "zoezoe"),
    ],
    ids=range(10),
)
def test_unknown_work_is_graded_all_the_same(item):
    found = assign([item], [JANE, ZOE])
    assert [(Student(id=item.key, listed=False), item)] == found.attempts
    assert [item] == found.unknown
    assert [JANE, ZOE] == found.missing


BOB = Student(id="bob7", name="Bob Ray", email="bob@x", columns={"Login": "bray"})
EVE = Student(id="eve1", name="Eve Fox", email="eve@x")
TWINS = [Student(id="1", name="Jane Doe"), Student(id="2", name="Doe, Jane")]
LOGINS = [Student(id="Ada@x"), Student(id="2", columns={"SIS Login ID": "cy@x"})]


def of_bob(*keys: str) -> list[HandedIn]:
    """Work with Bob's display name, from accounts with these keys."""
    return [handed_in(key, student_name="Bob Ray", number=n) for n, key in enumerate(keys)]


def by_eve(name: str) -> list[HandedIn]:
    """Eve's work with this display name, and Bob's."""
    eve = handed_in("eve@x", name, student_name=name, email="eve@x", path=Path("e"))
    return [eve, handed_in("bob7", path=Path("b"))]


BOBS = ["bob7", "BOB7", " bob7", "bray", "bob@x"]
# A roster, submissions, and the id of the student of each, or "" if there is none.
WHOSE = [
    # A name that two students have matches neither, and speaks against no id.
    (TWINS, [handed_in("2", student_name="Jane Doe")], ["2"]),
    (TWINS, [handed_in("janedoe")], [""]),
    # A display name is never an id nor an address; the submission's other fields still count.
    *(([BOB, EVE], by_eve(name), ["eve1", "bob7"]) for name in BOBS),
    *(([BOB, EVE], [handed_in(name, student_name=name)], [""]) for name in BOBS),
    # An address is compared with addresses, which may be in the column of the ids or of the logins.
    *(([BOB, EVE], [handed_in(it, email=it)], [""]) for it in ("bob7", "bray", "Bob Ray")),
    (LOGINS, [handed_in("8", email="ada@X"), handed_in("9", email="cy@x")], ["Ada@x", "2"]),
    ([BOB, Student(id="2", email="bob7")], [handed_in("bob7", "Bob Ray")], [""]),
    # The whole name may be the value of another column.
    (CLASS, [handed_in("hw1")], ["0042"]),
    # If two accounts have a student's name, only the one with the id is the student's.
    ([BOB, EVE], of_bob("12", "11"), ["", ""]),
    ([BOB, EVE], of_bob("bob7", "11"), ["bob7", ""]),
    # One account may have several attempts, unless one of them has another student's name.
    ([BOB, EVE], of_bob("11", "11"), ["bob7", "bob7"]),
    ([BOB, EVE], [*of_bob("11", "11"), handed_in("11", student_name="Eve Fox")], ["", "", ""]),
]


@pytest.mark.parametrize(("students", "items", "ids"), WHOSE, ids=range(len(WHOSE)))
def test_whose_a_submission_is(students, items, ids):
    whose = {item: one.id if one.listed else "" for one, item in assign(items, students).attempts}
    assert ids == [whose[item] for item in items]


@pytest.mark.parametrize(
    "item",
    [
        handed_in("eve1", email="bob@x"),
        handed_in("bob7", student_name="Eve Fox"),
        handed_in("11", email="bob@x", student_name="Fox, Eve"),
        handed_in("bob7", "Eve Fox"),
    ],
    ids=range(4),
)
def test_work_on_which_two_ways_of_matching_disagree_is_nobodys(item):
    """Such work is kept separate, even from the student whose id it has as its key."""
    bobs = handed_in("bob7", path=Path("bob"), submitted_at=at(1))
    found = assign([item, bobs], [BOB, EVE])
    assert [item] == found.unknown
    (student,) = [student for student, work in found.attempts if work is item]
    assert not student.listed
    assert student.id not in ("bob7", "eve1")
    told = f"{item.key} is on the roster, with another name or address"
    assert (told in found.notes[0]) == (item.key in ("bob7", "eve1"))
    assert (BOB, bobs) in found.attempts


@pytest.mark.parametrize("students", [None, [EVE]])
def test_the_name_of_one_and_the_id_of_another_are_two_students(students):
    eve = handed_in("bob7", student_name="bob7")
    bobs = handed_in("bob7", student_name="Bob Ray", path=Path("bob"))
    (one, _), (two, _) = assign([eve, bobs], students).attempts
    assert one.id != two.id


def test_without_a_roster_each_key_is_a_student():
    one = handed_in("7", "ada@x.edu", student_name="Ada", email="ada@x.edu", submitted_at=at(1))
    two = handed_in("7", submitted_at=at(2))
    found = assign([two, one, handed_in("3")], None)
    ada = Student(id="7", name="Ada", email="ada@x.edu")
    assert [(Student(id="3"), handed_in("3")), (ada, one), (ada, two)] == found.attempts
    assert ([], []) == (found.missing, found.unknown)


def test_attempts_are_sorted_by_student_then_time_then_number_then_path():
    items = [
        handed_in("b2", submitted_at=at(2), path=Path("z")),
        handed_in("b2", submitted_at=at(2), path=Path("a")),
        handed_in("zoezoe", submitted_at=at(1), number=9),
        handed_in("b2", submitted_at=at(2), number=1, path=Path("0")),
        handed_in("jdoe", number=2),
        handed_in("12345", number=1),
    ]
    found = assign(items, [ZOE, JANE])
    assert [items[i].path for i in (5, 4, 2, 1, 0, 3)] == [item.path for _, item in found.attempts]
    assert ([], []) == (found.missing, found.unknown)


@pytest.mark.parametrize("number", [None, 1])
def test_two_keys_of_one_student_without_an_order_are_in_doubt(number):
    items = [handed_in("jdoe", number=number), handed_in("12345", number=number)]
    found = assign([*items, handed_in("b2")], [JANE, ZOE])
    doubt = (
        "12345.zip and jdoe.zip are both from the student 12345, and nothing says which was handed "
        "in last; remove the one that does not count, or add a time to each name, as in "
        "12345@2026-10-01T22-10-00Z.zip"
    )
    assert [doubt, doubt, ""] == [item.doubt for _, item in found.attempts]


def test_one_submission_of_a_group_is_an_attempt_of_each_member():
    both = [handed_in(key, path=Path("submission_1")) for key in ("12345", "b2")]
    assert [JANE, ZOE] == [student for student, _ in assign(both, [ZOE, JANE]).attempts]
