"""Listing the submissions of a class: each folder layout, untrusted metadata, and wrong folders."""

import os
import subprocess
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.base.errors import UsageError
from grader.classroom.class_records import Student
from grader.classroom.intake import recognise
from grader.classroom.intake.folder_items import READABLE
from grader.classroom.roster import assign
from grader.submission import submissions
from kit.handing_in import Accepted
from kit.safe_text import one_line
from tests.grader.sampling import every

CANVAS = "doejane_12345_67890_hw2.zip"


def put(folder: Path, *names: str) -> Path:
    """Create empty files; a name that ends in / is a folder."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.touch()
    return folder


def keys(folder: Path) -> list[str]:
    return [item.key for item in recognise(folder).handed_in]


def refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        recognise(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Gradescope's export --------------------------------------------------------------------------

YAML = """---
submission_101:
  :submitters:
  - :name: Jane Doe
    :sid: '0123'
    :email: jane@x.edu
  :created_at: 2024-10-10 04:01:31.534866000 Z
  :score: 10.0
  :status: processed
  :history:
  - :id: 90
    :created_at: 2024-10-09 04:01:31.534866000 Z
    :autograder_error: false
  - :id: 91
    :created_at: 2024-10-10 03:01:31.534866000 Z
  - :id: 92
    :created_at: 2024-10-10 03:21:31.534866000 Z
    :autograder_error: true
submission_102:
  :submitters:
  - :name: Zoë Ålund
    :sid:
    :email: zoe@x.edu
  - :name: Bob
    :sid: 0456
    :email:
  :created_at: '2024-10-09 21:01:31 -07:00'
  :history: []
"""


def export(folder: Path, text: str = YAML, *names: str) -> Path:
    put(folder, *(names or ("submission_101/", "submission_102/")))
    (folder / "submission_metadata.yml").write_text(text, encoding="utf-8")
    return folder


def test_an_export_gives_students_times_and_numbers(tmp_path):
    """Groups are listed per member, ids keep zeros, and a run that we failed was none."""
    bob, jane, zoe = sorted(recognise(export(tmp_path)).handed_in, key=lambda i: i.student_name)
    assert ("0123", ("jane@x.edu", "Jane Doe"), 3) == (jane.key, jane.known_as, jane.number)
    assert datetime(2024, 10, 10, 4, 1, 31, 534866, UTC) == jane.submitted_at
    assert (tmp_path / "submission_101", "jane@x.edu") == (jane.path, jane.email)
    assert ("0456", ("Bob",), "") == (bob.key, bob.known_as, bob.email)
    assert ("zoe@x.edu", ("Zoë Ålund",), "Zoë Ålund", 1) == (
        zoe.key, zoe.known_as, zoe.student_name, zoe.number,
    )  # fmt: skip
    assert zoe.path == bob.path == tmp_path / "submission_102"
    assert datetime(2024, 10, 10, 4, 1, 31, tzinfo=UTC) == zoe.submitted_at == bob.submitted_at
    assert timedelta(hours=-7) == zoe.submitted_at.utcoffset()


def test_an_export_notes_folders_and_metadata_without_each_other(tmp_path):
    export(tmp_path, YAML, "submission_101/", "submission_9/", "ada.zip", "readme.txt")
    found = recognise(tmp_path)
    assert ["0123", "submission_9"] == [item.key for item in found.handed_in]
    assert [
        "submission_9 has no student in submission_metadata.yml.",
        "submission_102 is in submission_metadata.yml, but its folder is missing.",
        "ada.zip is left out: it is not part of the Gradescope export.",
        f"readme.txt is left out: it is not {READABLE}.",
    ] == found.notes


MERGES = "m0: &m0 {x: 1}\n" + "".join(
    f"m{i + 1}: &m{i + 1}\n  <<: [{', '.join([f'*m{i}'] * 9)}]\n" for i in range(12)
)


BROKEN = [
    ("submission_1: !!python/object/apply:os.system ['touch broken']", "got `array`"),
    ("submission_1: [", "is not valid metadata in line 2: did not find expected node"),
    ("submission_1: *missing", "found undefined alias"),
    ("[1]: 2", "found unhashable key"),
    ("a: " + "[" * 100_000, "exceeded maximum nesting depth"),
    ("", "describes no submissions"),
    ("- submission_1", "describes no submissions"),
    ("submission_1: 5", "has submission_1, which is not in Gradescope's format"),
    ("submission_1: {submitters: [{sid: [1]}]}", "got `array` - at `$.submitters[0].sid`"),
    (MERGES + "submission_1: {submitters: *m0}", "got `object` - at `$.submitters`"),
    ("submission_1: &me {x: [*me]}", "found unconstructable recursive node"),
    ("submission_1: {created_at: 2024-10-10 04:01:31}", "has no zone"),
    ("submission_1: {created_at: yesterday}", "yesterday is not a time"),
    ("submission_1: {created_at: 2024-13-10 04:01:31 Z}", "04:01:31 Z is not a possible time"),
    ("submission_1: {created_at: 0001-01-01 00:00:00 +14:00}", "is not a possible time"),
    ("submission_1: {created_at: 9999-12-31 23:59:60 Z}", "is not a possible time"),
    ("submission_1: \x07", "is not valid metadata"),
]


@pytest.mark.parametrize(("text", "sentence"), every(2, BROKEN), ids=range(17))
def test_hostile_or_broken_metadata_is_one_sentence(tmp_path, text, sentence):
    """No tag makes an object, and neither nesting nor aliases cost time or memory."""
    said = refusal(export(tmp_path, text, "submission_1/"))
    assert sentence in said
    assert "submission_metadata.yml" in said
    assert len(said) < 1000
    assert not Path("broken").exists()


def test_an_alias_stands_for_its_value_and_only_quotes_make_null_a_name(tmp_path):
    """Ruby writes an alias where two values are one object."""
    who = "&s [{sid: '7', email: null, name: 'null'}]"
    text = f"submission_1: {{submitters: {who}, history: [&t x, *t], results: *s}}"
    (found,) = recognise(export(tmp_path, text, "submission_1/")).handed_in
    assert (found.key, found.student_name, found.email, found.number) == ("7", "null", "", 3)


def test_metadata_is_text_with_a_largest_number_of_students(tmp_path):
    many = ", ".join(["{sid: '7'}"] * 1001)
    export(tmp_path, f"submission_1: {{submitters: [{many}]}}", "submission_1/")
    assert "more than 1000 students" in refusal(tmp_path)
    export(tmp_path, "submission_1: {submitters: [{sid: '7'}, {sid: '7'}]}", "submission_1/")
    assert ["7"] == keys(tmp_path)
    (tmp_path / "submission_metadata.yml").write_bytes(b"a: 1\nb: \xff\n")
    assert "submission_metadata.yml:2 is not UTF-8 text" in refusal(tmp_path)


def test_an_export_in_a_folder_of_its_own_has_to_be_named(tmp_path):
    export(tmp_path / "assignment_5_export")
    assert "assignment_5_export is a Gradescope export; pass that folder" in refusal(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("mallory/submission_metadata.yml", "mallory/submission_1/", "ada.zip"),
        ("mallory/submission_metadata.yml", "mallory/submission_1/", "roster.csv"),
        ("mallory/submission_metadata.yml", "mallory/assignment/linear.py"),
        ("mallory/submission_metadata.yml", "mallory/submission_x/", "mallory/submission_1.zip"),
    ],
)
def test_a_student_cannot_stop_the_class_with_a_file_like_an_exports(tmp_path, names):
    found = recognise(put(tmp_path, *names))
    assert "mallory" in [item.key for item in found.handed_in]


# --- Canvas ---------------------------------------------------------------------------------------


# The names of a folder's entries, what is found (key, name, lateness and number), and the notes.
DOWNLOADS = {
    "ids, lateness and attempts": (
        ["doejane_LATE_12345_67999_hw2-1.zip", CANVAS, ".DS_Store", "__MACOSX/", "Thumbs.db",
         "ångströmzoë_7_8_my_1_2_work.tar.gz", "_LATE_8_9_x.zip"],
        [("12345", "doejane", False, 67890), ("12345", "doejane", True, 67999),
         ("7", "ångströmzoë", False, 8), ("8", "", True, 9)],
        [],
    ),
    # Canvas chooses the ids, which order the archives; the student chooses what follows.
    "names of students": (
        ["doejane_11_900_hw-7.zip", "doejane_11_901_hw-1.zip", "doejane_11_99_hw.zip",
         "mallory_66_1_doejane_LATE_12345_67890_hw2.zip"],
        [*(("11", "doejane", False, n) for n in (99, 900, 901)), ("66", "mallory", False, 1)],
        [],
    ),
    "a number that is too large": (
        [f"doejane_11_{'9' * 19}_hw.zip"], [(f"doejane_11_{'9' * 19}_hw", "", False, None)], [],
    ),
    "one name unlike Canvas": (
        [CANVAS, "ada.zip"],
        [("ada", "", False, None), ("doejane_12345_67890_hw2", "", False, None)],
        ["1 archive has a name as in a Canvas download, but ada.zip does not, so the whole name "
         "of each archive is taken as a student; move the other files elsewhere."],
    ),
    "a folder and a text": (
        [CANVAS, "ada/", "doejane_12345_9_a.txt"],
        [("12345", "doejane", False, 67890)],
        [f"doejane_12345_9_a.txt is left out: it is not {READABLE}.",
         "ada is left out: it is not part of a Canvas download."],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("names", "told", "notes"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_a_canvas_download_is_read(tmp_path, names, told, notes):
    found = recognise(put(tmp_path, *names))
    assert told == [(i.key, i.student_name, i.late, i.number) for i in found.handed_in]
    assert {None} == {i.submitted_at for i in found.handed_in}
    assert notes == found.notes


@pytest.mark.parametrize(
    "names", [["s1_2026_10_01", "s2_2026_10_01"], ["s1_1_2_x", "s2_1_3_x"], ["s1_2026_9_x"]]
)
def test_own_names_that_look_like_canvas_never_make_students_one(tmp_path, names):
    """The second number would be the id of several students, or is a year."""
    assert names == keys(put(tmp_path, *(f"{name}.zip" for name in names)))


def test_what_canvas_has_and_nobody_can_grade_is_in_doubt(tmp_path):
    """A student with a PDF alone is not missing; a person sees why there is no grade."""
    put(tmp_path, CANVAS, "roebob_LATE_9_8_essay.pdf", "roebob_LATE_9_9_more.txt")
    _, bob = recognise(tmp_path).handed_in
    assert (bob.key, bob.student_name, bob.late) == ("9", "roebob", True)
    assert bob.doubt == f"roebob_LATE_9_8_essay.pdf cannot be graded: expected {READABLE}"


def test_the_modules_of_a_student_in_canvas_are_one_submission(tmp_path):
    """Canvas adds -1 to the name of a module that is handed in again; the later one counts."""
    names = ["ada_1_9_linear.py", "ada_1_13_linear-1.py", "ada_1_12_data.py", "bob_2_14_linear.py"]
    ada, bob = recognise(put(tmp_path, *names)).handed_in
    assert [name for name, _ in ada.parts] == ["linear.py", "data.py", "linear-1.py"]
    one = tmp_path / "bob_2_14_linear.py"
    assert (ada.number, bob.parts, bob.path) == (13, (("linear.py", one),), one)
    (tmp_path / "ada_1_13_linear-1.py").write_text("x = 2")
    accepted = Accepted(modules=("assignment/linear.py", "assignment/data.py"))
    read = submissions.read(ada.path, accepted, parts=dict(ada.parts))
    assert read.sources == {"assignment/linear.py": b"x = 2", "assignment/data.py": b""}
    one.write_text("x = 3")
    read = submissions.read(bob.path, accepted, parts=dict(bob.parts))
    assert read.sources == {"assignment/linear.py": b"x = 3"}


# --- Moodle ---------------------------------------------------------------------------------------


def test_moodles_folders_and_files_give_names(tmp_path):
    """A folder's only archive is the submission; text that was typed in is in doubt."""
    of = "_assignsubmission_file"
    names = [f"Jane van Doe_12{of}/hw.zip", f"Bob O'Neil_13{of}/linear.py"]
    names += [f"Bob O'Neil_13{of}/data.py", f"Cy Li_14{of}_linear.py", f"Di_15{of}/a.zip"]
    names += [f"Di_15{of}/b.zip", "Ed_16_assignsubmission_onlinetext/onlinetext.html"]
    names += [f"Flo_17{of}/essay.pdf"]
    names += ["Jane van Doe_12_assignsubmission_onlinetext/onlinetext.html"]
    found = recognise(put(tmp_path, *names))
    assert found.notes == []
    told = {one.key: (one.path.name, one.doubt) for one in found.handed_in}
    assert told == {
        "Jane van Doe": ("hw.zip", ""),
        "Bob O'Neil": (f"Bob O'Neil_13{of}", ""),
        "Cy Li": (f"Cy Li_14{of}_linear.py", ""),
        "Di": (f"Di_15{of}", "a.zip and b.zip are both archives; remove one"),
        "Ed": (
            "Ed_16_assignsubmission_onlinetext",
            "it is text that was typed into Moodle; ask for the file",
        ),
        "Flo": (f"Flo_17{of}", f"essay.pdf cannot be graded: expected {READABLE}"),
    }
    put(tmp_path / "chosen", f"Eve_18{of}_x_77{of}_hw.zip", f"Ida_19{of}_hw.zip")
    eve = recognise(tmp_path / "chosen").handed_in[0]
    assert "Eve" == eve.key, "students choose what follows Moodle's own number"
    (cy,) = [one for one in found.handed_in if one.key == "Cy Li"]
    assert cy.parts == (("linear.py", cy.path),)
    roster = [Student(id="77", name="Jane van Doe"), Student(id="78", name="Li, Cy")]
    jane = next(one for one in found.handed_in if one.key == "Jane van Doe")
    listed = assign([jane, eve, cy], roster).attempts
    assert ["77", "78", "Eve"] == [student.id for student, _ in listed]


# --- names of a given form ------------------------------------------------------------------------


def test_names_of_a_given_form(tmp_path):
    put(tmp_path, "hw1-77_Ada Li_draft.zip", "hw1-78_Bob_.zip", "other.zip", "hw1-79_Cy_x.rar")
    found = recognise(tmp_path, "hw1-{id}_{name}_{any}.zip")
    assert [("77", "Ada Li"), ("78", "Bob")] == [(i.key, i.student_name) for i in found.handed_in]
    assert [
        "hw1-79_Cy_x.rar is left out: it does not fit hw1-{id}_{name}_{any}.zip.",
        "other.zip is left out: it does not fit hw1-{id}_{name}_{any}.zip.",
    ] == found.notes
    put(tmp_path, "other/a@x.edu 2026-10-01T22-10-00Z/")
    (one,) = recognise(tmp_path / "other", "{email} {time}").handed_in
    assert (one.key, one.email) == ("a@x.edu", "a@x.edu")
    assert one.submitted_at == datetime(2026, 10, 1, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("{any}.zip", "expected one of {id}, {name} and {email}, each once"),
        ("{id}{id}.zip", "expected one of {id}"),
        ("{id}.tar", "has nothing to grade: no name fits --layout {id}.tar"),
    ],
)
def test_a_form_that_fits_nothing_is_refused(tmp_path, form, said):
    put(tmp_path, "ada.zip")
    with pytest.raises(UsageError) as caught:
        recognise(tmp_path, form)
    assert said in str(caught.value)


# --- clones ---------------------------------------------------------------------------------------


def commit(folder, at):
    folder.mkdir()
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@x.edu", "-C", str(folder)]
    times = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    words = ["commit", "-q", "--allow-empty", "-m", "committer x 1 +0000"]
    for command in (["init", "-q"], words):
        subprocess.run([*git, *command], check=True, env={**os.environ, **times})


def test_clones_have_the_time_of_their_last_commit(tmp_path):
    """What the names share is left out; a repository that git cannot read has no time."""
    commit(tmp_path / "hw1-ada", "2026-10-01T10:00:00+0200")
    commit(tmp_path / "hw1-bob", "2026-10-02T10:00:00Z")
    put(tmp_path, "hw1-c-y/.git/")
    found = recognise(tmp_path)
    assert [(one.key, one.submitted_at) for one in found.handed_in] == [
        ("ada", datetime(2026, 10, 1, 8, tzinfo=UTC)),
        ("bob", datetime(2026, 10, 2, 10, tzinfo=UTC)),
        ("c-y", None),
    ]
    assert found.notes == [
        "The times are those of the last commits, which students can choose.",
        "The last commit of hw1-c-y cannot be read: it has no time.",
    ]
    # Without a note, a whole class would not be late, and nobody would know.
    put(tmp_path, "hw1-eve/linear.py")
    found = recognise(tmp_path)
    assert {one.submitted_at for one in found.handed_in} == {None}
    assert found.notes[0].startswith("3 folders are repositories, but hw1-eve is none")


def test_a_repository_cannot_make_git_run_anything(tmp_path):
    """Its settings name programs for whatever git might run."""
    for name in ("hw1-ada", "hw1-bob"):
        commit(tmp_path / name, "2026-10-01T10:00:00Z")
        ran = tmp_path / f"{name}-ran"
        with (tmp_path / name / ".git" / "config").open("a") as config:
            config.write(
                f"[core]\nfsmonitor = touch {ran}\npager = touch {ran}\nsshCommand = touch {ran}\n"
                f"[log]\nshowSignature = true\n[gpg]\nprogram = touch {ran}\n"
                f"[alias]\ncat-file = !touch {ran}\n[diff]\nexternal = touch {ran}\n"
                f'[extensions]\npartialClone = x\n[remote "x"]\nurl = ext::touch {ran}\n'
            )
        (tmp_path / name / ".git" / "HEAD").write_text("f" * 40 + "\n" if name[-1] == "b" else "")
    found = recognise(tmp_path)
    assert len(found.handed_in) == 2
    assert not list(tmp_path.glob("*-ran"))


# --- plain files and folders ----------------------------------------------------------------------


# An entry of a folder, the student whom its name names, and the time in it.
NAMED = [
    *((f"{key}{end}", key, None) for key, end in (
        ("ada", ".zip"), ("bob", ".tar.gz"), ("cy", ".TGZ"), ("dora", "/assignment/x.py"),
        ("empty", "/"), ("a@x.edu", ".zip"), ("flo", "/inner/assignment/x.py"), ("名前", ".zip"),
        ("o'neil jr", ".zip"), ("ada", ".py"), ("a.b", ".zip"), ("(1)", ".zip"),
    )),
    # What a browser or a zip program adds, and what cannot be graded.
    ("fay.zip.zip", "fay", None), ("gil (1).zip", "gil", None), ("gil(12).tar.gz", "gil", None),
    (" .zip", " .zip", None),
    ("bob.tar.bz2", "bob", None), ("cy.tar.xz", "cy", None), ("dan.7z", "dan", None),
    ("eve.odt", "eve", None), ("fay.pages", "fay", None),
    (unicodedata.normalize("NFD", "zoë.zip"), unicodedata.normalize("NFC", "zoë"), None),
    ("ada@2026-10-01T22:10:00Z.zip", "ada", "2026-10-01T22:10:00+00:00"),
    ("ada@2026-10-01T22-10-00+0200.zip", "ada", "2026-10-01T22:10:00+02:00"),
    ("bob@x.edu@2026-10-01 22-10-00.25-07:00.tgz", "bob@x.edu", "2026-10-01T22:10:00.250000-07:00"),
    ("cy@2026-10-01T22-10-00Z/", "cy", "2026-10-01T22:10:00+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "at"), NAMED, ids=[name for name, *_ in NAMED])
def test_a_name_names_a_student_and_may_carry_the_time(tmp_path, name, key, at):
    found = recognise(put(tmp_path, name))
    (one,) = found.handed_in
    assert (key, at) == (one.key, one.submitted_at and one.submitted_at.isoformat())
    assert (None, []) == (one.number, found.notes)


def test_archives_beside_an_assignment_are_no_attempts(tmp_path):
    assert ["flo"] == keys(put(tmp_path, "flo/inner/assignment/x.py", "flo/data.zip"))


NO_TIMES = {
    "has no zone": ["2026-10-01T22-10-00", "2026-10-01T22:10:00"],
    "is not a time": [
        *("2026-10-01", "2026-10-01T22-10Z", "01-10-2026", "1.10.2026 22-10-00"),
        *("2026-10-01T22-10-00PST", "2026-10-01 (1)"),
    ],
    "is not a possible time": [
        *("2026-10-01T25-10-00Z", "2026-10-01T22-10-00+9900"),
        "2026-10-01T24-00-00Z",
    ],
    "is in the future": ["2126-10-01T22-10-00Z"],
}


@pytest.mark.parametrize(("at", "sentence"), [(at, s) for s in NO_TIMES for at in NO_TIMES[s]])
def test_a_time_that_is_none_or_has_no_zone_is_in_doubt(tmp_path, at, sentence):
    name = f"ada@{at}.zip"
    doubtful, other = recognise(put(tmp_path, name, "bob.zip")).handed_in
    assert ("ada", None) == (doubtful.key, doubtful.submitted_at)
    assert sentence in doubtful.doubt
    assert name in doubtful.doubt
    assert ("bob", "") == (other.key, other.doubt)


@pytest.mark.parametrize("name", [
    "ada_2026-10-01T22-10-00Z.zip", "2026-10-01 22-10-00 ada.zip", "ada@20261001T221000Z.zip",
    "ada 1.10.2026 22-10.zip", "ada_2026.10.01.zip",
])  # fmt: skip
def test_a_time_elsewhere_in_a_name_is_not_dropped_silently(tmp_path, name):
    (note,) = recognise(put(tmp_path, name)).notes
    assert note.startswith(f"{name} holds a time that is not read")
    assert [] == recognise(put(tmp_path / "ids", "20261001.zip", "2026-1.zip", "1.2.345.zip")).notes


def put_in_order(folder, names):
    """Create archives of one student, each with a later modification time, except for equals."""
    for name, seconds in names.items():
        put(folder, f"ada/{name}")
        os.utime(folder / "ada" / name, (seconds, seconds))
    found = recognise(put(folder, "ada/notes.txt", "bob.zip"))
    told = [(i.key, i.path.name, i.number, i.submitted_at) for i in found.handed_in]
    assert ("bob", "bob.zip", None, None) == told.pop()
    return told, found.notes


def test_the_archives_in_a_students_folder_are_attempts(tmp_path):
    """Modification time and then name order the attempts, but never decide lateness."""
    names = {"b.zip": 2000, "a.zip": 2000, "first.tar.gz": 1000}
    told, notes = put_in_order(tmp_path, names)
    order = ("first.tar.gz", "a.zip", "b.zip")
    assert [("ada", name, place, None) for place, name in enumerate(order, 1)] == told
    assert [] == notes


def test_a_time_ahead_is_told(tmp_path):
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    put(tmp_path, f"ada@{tomorrow:%Y-%m-%dT%H-%M-%S}Z.zip", "bob@2020-01-01T00-00-00Z.zip")
    found = recognise(tmp_path)
    assert [bool(one.submitted_at) for one in found.handed_in] == [True, True]
    (note,) = found.notes
    assert f"is dated {tomorrow:%Y-%m-%d %H:%M} UTC, which is in the future" in note


@pytest.mark.parametrize("name", ["hw@2020-01-01T00-00-00Z.zip", "hw@2020-99-99.zip"])
def test_a_time_in_a_name_that_the_student_chose_is_not_believed(tmp_path, name):
    """Such a time neither dates nor orders attempts, and an invalid one does not stop the class."""
    told, notes = put_in_order(tmp_path, {"a.zip": 1000, name: 2000})
    assert [("ada", "a.zip", 1, None), ("ada", name, 2, None)] == told
    assert [
        f"ada/{name}: the time in its name is ignored, because a student can choose the names in "
        "this folder."
    ] == notes


def test_many_notes_on_names_do_not_hide_that_the_only_folder_may_be_the_class(tmp_path):
    put(tmp_path, *(f"unpacked/s{n:02}@2026-10-01T00-00-00Z.zip" for n in range(20)))
    notes = recognise(tmp_path).notes
    assert "unpacked is the only folder, and its 20 archives are taken as attempts" in notes[0]
    assert "There are 10 more notes of this kind." == notes[-1]


def test_a_folder_of_very_many_archives_is_in_doubt(tmp_path):
    """Each would be graded, for as long as a submission may take; the others are not affected."""
    put(tmp_path, "ada.zip", *(f"eve/{number}.zip" for number in range(101)))
    told = {one.key: one.doubt for one in recognise(tmp_path).handed_in}
    assert told == {"ada": "", "eve": "its folder has 101 archives; expected at most 100"}


def test_the_time_of_a_students_folder_is_that_of_the_archives_in_it(tmp_path):
    put(tmp_path, "ada@2026-10-02T00-00-00Z/1.zip", "ada@2026-10-01T00-00-00Z/1.zip", "bob.zip")
    found = recognise(tmp_path).handed_in[:2]
    assert [(1, 1), (1, 2)] == [(i.number, i.submitted_at.day) for i in found]


@pytest.mark.parametrize(
    "names",
    [
        ("ada.zip", "ada.tar.gz"),
        ("ada.zip", "ada (1).zip"),
        ("ada/assignment/", "ada.zip"),
        ("ada/1.zip", "ada/2.zip", "ada.zip"),
        ("ada.zip", "ada@2026-10-01T22-10-00Z.zip"),
        ("ada@2026-10-01T22-10-00Z.zip", "ada@2026-10-01T22-10-00Z.tgz"),
        ("ada@2026-10-01T22-10-00Z.zip", "ada@2026-10-02T00-10-00+0200.zip"),
        ("Ada.zip", "ada.zip"),
        ("Ada@2026-10-01T22-10-00Z.zip", "ada@2026-10-02T22-10-00Z.zip"),
        (CANVAS, "doejane_12345_67890_hw2-1.zip"),
        ("ada.zip", "\uff41da.zip"),  # a wide letter
        ("ZOË.zip", unicodedata.normalize("NFD", "zoë.tgz")),
    ],
)
def test_two_submissions_of_a_student_without_an_order_are_in_doubt(tmp_path, names):
    bob = "roebob_9_8_hw.zip" if CANVAS in names else "bob.zip"
    put(tmp_path, *names, bob)
    if len(os.listdir(tmp_path)) < 3 - ("ada/2.zip" in names):
        pytest.skip("this file system does not distinguish these names")
    found = assign(recognise(tmp_path).handed_in, None).attempts
    for _, item in found:
        assert (item.path.name == bob) != (one_line(item.path.name, 100) in item.doubt)
        assert CANVAS not in names or "add a time" not in item.doubt  # which is not read there


def test_links_and_special_files_are_left_out_with_a_note(tmp_path):
    outside = put(tmp_path / "outside", "x.zip")
    folder = put(tmp_path / "class", "ada.zip", "bob/1.zip", "bob/..zip", "...zip", ".x.py/")
    put(folder, "._ada.zip", ".git/", ".DS_Store")
    (folder / "link.zip").symlink_to(outside / "x.zip")
    (folder / "dangling").symlink_to(outside / "nothing")
    (folder / "eve").symlink_to(outside, target_is_directory=True)
    (folder / "bob" / "2.zip").symlink_to(outside / "x.zip")
    os.mkfifo(folder / "pipe.zip")
    found = recognise(folder)
    assert ["ada", "bob"] == [item.key for item in found.handed_in]
    link = "is left out: it is a link, and links are not followed."
    hidden = "is left out: its name begins with a dot."
    assert [
        f"bob/..zip {hidden}", f"bob/2.zip {link}", f"...zip {hidden}", f".x.py {hidden}",
        f"dangling {link}", f"eve {link}", f"link.zip {link}",
        "pipe.zip is left out: it is neither a file nor a folder.",
    ] == found.notes  # fmt: skip


def test_a_link_in_place_of_metadata_is_not_read(tmp_path):
    secret = export(tmp_path / "other") / "submission_metadata.yml"
    folder = put(tmp_path / "class", "submission_101/assignment/")
    (folder / "submission_metadata.yml").symlink_to(secret)
    assert ["submission_101"] == keys(folder)


def test_names_are_safe_to_print(tmp_path):
    put(tmp_path, "a\x1b[31m\n.txt", "b\u202e\x1b]0;x\x07.zip")
    (tmp_path / os.fsdecode(b"c\xff.zip")).touch()
    found = recognise(tmp_path)
    texts = [*found.notes, *(item.key for item in found.handed_in)]
    assert 3 == len(texts)
    assert all(text.isprintable() for text in texts)
    assert "\\udcff" in "".join(texts)


# --- folders of no known layout -------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [(), ("readme.txt",), (".hidden.zip", "__MACOSX/"), ("submission_metadata.yml",)]
)
def test_a_folder_with_nothing_to_grade_says_what_was_expected(tmp_path, names):
    put(tmp_path, *names)
    if "submission_metadata.yml" in names:
        export(tmp_path, YAML, "readme.txt")
    assert "has nothing to grade: expected <student>.zip" in refusal(tmp_path)


def test_what_is_no_class_is_refused(tmp_path):
    assert "cannot be read: File name too long" in refusal(tmp_path / ("x" * 300))
    put(tmp_path, "assignment/linear.py", "other/ada.zip")
    assert "is a single submission; pass the folder of the whole class" in refusal(tmp_path)
