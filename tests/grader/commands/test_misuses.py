"""A head TA's mistakes: each is one sentence with the exit code 2 (3 if the machine is at fault).

The sentence says what was expected or found, or what to do. No row leaves a new or a changed file.
"""

import resource
import shlex
import shutil
import sqlite3
import sys
import zipfile
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from grader.base.errors import Status
from grader.classroom import gradebook, setups
from grader.classroom.class_records import Student
from grader.commands import cli
from grader.course.courses import load
from grader.course.late_policy import Policy
from grader.report import json_report
from grader.report.report_contents import Reported
from tests.grader.in_this_process import DUE, hand_in, new_book, of, result_of

SOURCE = "def relu(x):\n    return x\n"
BOOK = "--gradebook class.sqlite"
BATCH = f"batch handed_in {BOOK}"
POLICY = "status class.sqlite --policy"
CANVAS = "push canvas class.sqlite --assignment https://canvas.example.edu/courses/1/assignments/2"
UNTIL = "--until 2026-10-09T23:59:00Z"
EXCEL = "save it as CSV in UTF-8 (in Excel: File, Save As, CSV UTF-8)"
FILES = {
    "ada.json": json_report.render(Reported(result_of(of(SOURCE)))).encode(),
    "broken.zip": b"PK\x03\x04 half of a download",
    "notes.pdf": b"%PDF-1.4 \xe2\xe3",
    "text.sqlite": b"id,name\n" * 200,
    "roster.csv": b"id,name\nada,Ada\n",
    "latin.csv": "id,name\nzoe,Zoë\n".encode("latin-1"),
    "utf16.csv": "id,name\nada,Ada\n".encode("utf-16-le"),
    "old.xls": b"\xd0\xcf\x11\xe0" + bytes(600),
    "points.csv": b"student,points,problem,reason\nada,9,relu,oral\nbob,nan,,x\nade,1,,x\n",
    "column.csv": b"student,marks\nada,9\n",
    "days.csv": b"who,days\nada,1\n",
    "token": b"secret",
    "key.toml": b"[policy]\nlate_day = 2\n",
    "lacks.toml": b'[policy.classroom50]\norganization = "o"\n',
    "above.toml": b"late_days = 2\n",
    "quoted.toml": b"[policy.deadlines]\ndefault = 'Friday'\n",
    "bank.toml": b'[policy]\nlate_days_file = "days.csv"\n',
    "nowhere.toml": b'[policy]\nlate_days_file = "other/days.csv"\n',
    "canvas.toml": b'[policy]\ncanvas_url = "canvas"\n',
}
# (command line, exit code, parts of the sentence)
ROWS = [
    # --- the command line itself
    ("batsh handed_in", 2, ["no command batsh", "did you mean batch?"]),
    ("check ada.zip", 2, ["no command check", "`grader --help` lists the commands"]),
    ("merge-student ada", 2, ["no command merge-student", "did you mean merge-students?"]),
    ("batch handed_in", 2, ["--gradebook is missing", "`grader batch FOLDER --gradebook FILE`"]),
    (f"{BATCH} eve.zip", 2, ["unexpected argument eve.zip", "`grader batch FOLDER"]),
    ("grade ada.zip eve.zip x", 2, ["unexpected arguments eve.zip x", "`grader grade SUBMISSION`"]),
    ("status --gradebook class.sqlite", 2, ["no option --gradebook", "`grader status GRADEBOOK`"]),
    ("status class.sqlite --verbos", 2, ["no option --verbos; did you mean --verbose?"]),
    (f"show ada {BOOK} --policy", 2, ["--policy needs a value"]),
    ("grade ada.zip --verbose=3", 2, ["--verbose takes no value"]),
    (f"{BATCH} --jobs 0", 2, ["--jobs 0: expected a whole number of at least 1"]),
    (f"{BATCH} --jobs=1.5", 2, ["--jobs 1.5: expected a whole number of at least 1"]),
    ("grade ada.zip --seconds nan", 2, ["--seconds nan: expected a number of at least 1"]),
    (f"answer x {BOOK} --accept --reason x", 2, ["REQUEST x: expected a whole number"]),
    (f"show '' {BOOK}", 2, ["an argument is empty: is a variable of the shell not set?"]),
    ("--course roster.csv status class.sqlite", 2, ["expected the folder of a course", "a file"]),
    ("--course nowhere status class.sqlite", 2, ["--course nowhere", "there is no such folder"]),
    ("--course course", 2, ["expected a command, got none; `grader --help` lists them"]),
    ("grade ada.zip --json=", 2, ["--json is empty: is a variable of the shell not set?"]),
    ("override ada --gradebook '' --remove --reason x", 2, ["--gradebook is empty"]),
    # --- submissions
    ("grade nowhere.zip", 2, ["nowhere.zip does not exist"]),
    ("grade broken.zip", 2, ["broken.zip is damaged or incomplete"]),
    ("grade notes.pdf", 2, ["notes.pdf is not a submission: expected a folder, a .zip"]),
    ("grade ada.zip --only relo", 2, ["--only relo: no such problem; did you mean relu? There"]),
    ("grade ada.zip --device tpu", 2, ["--device tpu: expected cpu or cuda"]),
    ("grade ada.zip --isolation docker", 2, ["expected auto, bubblewrap, landlock or none"]),
    ("grade ada.zip --json ada.zip", 2, ["--json ada.zip would overwrite SUBMISSION ada.zip"]),
    ("grade ada.zip --json nowhere/r.json", 2, ["cannot be written: there is no folder nowhere"]),
    ("grade ada.zip --json handed_in", 2, ["handed_in cannot be written: it is a folder"]),
    ("merge ada.json ada.json", 2, ["both results are of a run with --device cpu"]),
    ("merge ada.json roster.csv", 2, ["roster.csv is not JSON: expected what `grader grade --jso"]),
    ("merge ada.json nowhere.json", 2, ["nowhere.json cannot be read: there is no such file"]),
    ("diff ada.json", 2, ["expected a gradebook, or two results: OLD.json NEW.json"]),
    # --- batch: the folder, the roster and the gradebook
    (f"batch nowhere {BOOK}", 2, ["nowhere does not exist"]),
    (f"batch ada.zip {BOOK}", 2, ["ada.zip is a file; name the folder that it is in"]),
    (f"batch empty {BOOK}", 2, ["empty has nothing to grade: expected <student>.zip"]),
    (f"{BATCH} --roster roster.xlsx", 2, ["roster.xlsx is an Excel file", EXCEL]),
    (f"{BATCH} --roster old.xls", 2, ["old.xls is an Excel file", EXCEL]),
    (f"{BATCH} --roster utf16.csv", 2, ["utf16.csv:1 is UTF-16 text without a byte order", EXCEL]),
    (f"{BATCH} --roster handed_in", 2, ["handed_in cannot be read: it is a folder, not a file"]),
    (f"{BATCH} --roster nowhere.csv", 2, ["nowhere.csv cannot be read: there is no such file"]),
    (f"{BATCH} --layout {{x}}.zip", 2, ["--layout {x}.zip: {x} is unknown; there are {id}"]),
    (f"{BATCH} --executor slurm", 2, ["--executor slurm: expected local or ray"]),
    (f"{BATCH} --address x:1", 2, ["--address needs --executor ray"]),
    (f"{BATCH} --executor ray --isolation none", 2, ["--isolation none: not on a cluster"]),
    (f"{BATCH} --executor ray --address ray://x:1", 2, ["expected HOST:PORT"]),
    (f"{BATCH} --seed 3", 2, ["the seed: 0, now 3", "--course course --seed 3"]),
    ("batch handed_in --gradebook other.sqlite", 2, ["is an SQLite file, but not a gradebook"]),
    ("batch handed_in --gradebook handed_in", 2, ["handed_in cannot be written: it is a folder"]),
    ("status text.sqlite", 2, ["text.sqlite: expected a gradebook of `grader batch`, found anoth"]),
    ("status cut.sqlite", 2, ["cut.sqlite: it is damaged; use a backup of it"]),
    ("status empty", 2, ["empty is a folder: expected the gradebook, a file of `grader batch`"]),
    ("regrade nowhere.sqlite", 2, ["there is no such gradebook; `grader batch` creates one"]),
    # --- the policy
    (f"{POLICY} key.toml", 2, ["[policy] has no key late_day; did you mean late_days? It can hav"]),
    (f"{POLICY} lacks.toml", 2, ["[policy.classroom50] lacks the key classroom; expected a short"]),
    (f"{POLICY} above.toml", 2, ["expected only the table [policy], found the key late_days outs"]),
    (f"{POLICY} quoted.toml", 2, ["is 'Friday'; expected a time without quotes, such as 2026-"]),
    (f"{POLICY} bank.toml", 2, ["days.csv:1: expected a file of late days", "found who, days"]),
    (f"{POLICY} nowhere.toml", 2, ["late_days_file in [policy] is other/days.csv; there is no fo"]),
    (f"{POLICY} canvas.toml", 2, ["canvas_url in [policy] is canvas; expected an address"]),
    # --- one student
    (f"show ade {BOOK}", 2, ["class.sqlite has no student ade; did you mean ada?"]),
    (f"show zed {BOOK}", 2, ["`grader status class.sqlite --verbose` lists all"]),
    (f"extend ' ' {UNTIL} --reason ill {BOOK}", 2, ["the student is empty: expected an id"]),
    (f"extend ada --until Friday --reason x {BOOK}", 2, ["--until Friday: expected a time such a"]),
    (f"extend ada --until 2026-10-09 --reason x {BOOK}", 2, ["no time zone: add its offset"]),
    (f"extend ada --until 1926-10-09T00:00:00Z --reason x {BOOK}", 2, ["is in the year 1926"]),
    (f"extend ada {UNTIL} {BOOK}", 2, ["--reason is missing or empty: expected the reason"]),
    (f"extend ada --reason x {BOOK}", 2, ["expected --until or --from with a column until"]),
    (f"extend ada --section A {UNTIL} {BOOK}", 2, ["found STUDENT and --section"]),
    (f"extend --section B {UNTIL} --reason x {BOOK}", 2, ["--section B", "with students: A"]),
    (f"override ada --points nan --reason x {BOOK}", 2, ["--points nan: expected a number of"]),
    (f"override ada --points inf --reason x {BOOK}", 2, ["--points inf: expected a number of po"]),
    (f"override ada --points 9 --reason x {BOOK}", 2, ["--points 9: the assignment gives at most"]),
    (f"override eve --points 1 --reason x {BOOK}", 2, ["Eve (eve) handed in nothing; --anyway"]),
    (f"override ada --reason x {BOOK}", 2, ["expected --points or --remove, found none"]),
    (f"override ada --remove --reason x {BOOK}", 2, ["ada has no points by hand for the assignme"]),
    (f"override ada --points 1 --problem relo --reason x {BOOK}", 2, ["--problem relo", "mean re"]),
    (f"override --from points.csv {BOOK}", 2, ["line 2: points 9: relu gives at most 1", "line 3: "
     "points nan: expected a number", "line 4: ", "has no student ade; did you mean ada?"]),
    (f"override --from column.csv {BOOK}", 2, ["expected the columns student, points, problem, rea"
     "son, found student, marks"]),
    (f"override --from roster.xlsx {BOOK}", 2, ["roster.xlsx is an Excel file", EXCEL]),
    (f"merge-students ada {BOOK}", 2, ["expected --into OTHER or --undo, found none"]),
    (f"merge-students ada --into Ada {BOOK}", 2, ["--into Ada: this is ada itself; expected anot"]),
    (f"merge-students ada --undo {BOOK}", 2, ["ada was not merged, so there is nothing to undo"]),
    (f"rename-student ada --id bob {BOOK}", 2, ["--id bob: a student has this id", "merge-studen"]),
    (f"rename-student ada --id ' ' {BOOK}", 2, ["--id ' ': expected 1 to 200 printable character"]),
    (f"remove-student ada {BOOK}", 2, ["--reason is missing or empty: expected the reason"]),
    (f"comment ada {BOOK}", 2, ["expected --text, --again or --remove, found none"]),
    (f"comment ada --again sign {BOOK}", 2, ["--again sign: no such comment; there are none"]),
    (f"request eve --problem relu --test x --text y {BOOK}", 2, ["eve handed in nothing"]),
    (f"request ada --problem adamw --test steps --text y {BOOK}", 2, ["did you mean test_steps?"]),
    (f"request ada --problem adam --test x --text y {BOOK}", 2, ["--problem adam", "mean adamw?"]),
    (f"request ada --problem adamw --test x --text y --attempt 2 {BOOK}", 2, ["ada has 1 attempt"]),
    (f"answer 7 --accept --reason x {BOOK}", 2, ["REQUEST 7: no such regrade request; there are"]),
    (f"answer 1 --reason x {BOOK}", 2, ["expected --accept or --refuse, found none"]),
    (f"comment ada --again x --name y {BOOK}", 2, ["--name needs --text"]),
    (f"comment ada --text ' ' {BOOK}", 2, ["--text is empty: expected a text"]),
    (f"comment ada --text {'x' * 1_001} {BOOK}", 2, ["--text has 1001 characters: expected at mo"]),
    (f"comment ada --text x --problem y {BOOK}", 2, ["--problem y: no such problem; there are re"]),
    (f"answer 7 --refuse --points 1 --reason x {BOOK}", 2, ["--points needs --accept"]),
    (f"answer 7 --accept --points inf --reason x {BOOK}", 2, ["expected a number of points"]),
    (f"override --points 1 --reason x {BOOK}", 2, ["expected STUDENT or --from, found none"]),
    (f"override ada --from points.csv {BOOK}", 2, ["found STUDENT and --from"]),
    (f"override --from points.csv --points 1 {BOOK}", 2, ["--from takes the points and problems"]),
    (f"merge-students ada --into bob --undo {BOOK}", 2, ["found --into OTHER and --undo"]),
    (f"rename-student ada {BOOK}", 2, ["expected --id, --name or --undo, found none"]),
    (f"rename-student ada --id 'a\x1b[2J' {BOOK}", 2, ["expected 1 to 200 printable characters"]),
    (f"rename-student ada --id {'x' * 201} {BOOK}", 2, ["expected 1 to 200 printable characters"]),
    # --- the class
    ("regrade class.sqlite --apply --undo", 2, ["expected either --apply or --undo, found both"]),
    ("regrade class.sqlite --undo", 2, ["no regrade was applied, so there is nothing to undo"]),
    ("regrade class.sqlite --device cuda", 2, ["nothing has been graded with --device cuda yet"]),
    ("diff class.sqlite", 2, ["nothing was regraded; first run `grader regrade class.sqlite`"]),
    ("diff class.sqlite --gradescope roster.csv", 2, ["expected a header with Total Score"]),
    ("diff class.sqlite --gradescope roster.xlsx", 2, ["roster.xlsx is an Excel file", EXCEL]),
    ("export class.sqlite", 2, ["expected at least one of --csv, --canvas", "found none"]),
    ("export class.sqlite --csv t --html t", 2, ["--csv t is a file, and --html writes a folder"]),
    ("export class.sqlite --csv t --canvas t", 2, ["--canvas t and --csv are one file, which would"
     " be overwritten: name another file"]),
    ("export class.sqlite --html roster.csv", 2, ["cannot be made: it is a file, not a folder"]),
    ("export class.sqlite --html roster.csv/x", 2, ["roster.csv is a file, not a folder"]),
    ("export class.sqlite --csv t --canvas c", 2, ["write canvas_id", "or add --canvas-export"]),
    ("export class.sqlite --canvas c --canvas-export roster.csv", 2, ["found id,name"]),
    ("export class.sqlite --canvas c --canvas-export latin.csv", 2, ["latin.csv:2 is not", EXCEL]),
    ("export class.sqlite --csv t --classroom50 s", 2, ["expected organization, classroom and as"]),
    ("export class.sqlite --csv t --late-days days.csv", 2, ["days.csv:1: expected a file of lat"]),
    ("export class.sqlite --sources handed_in", 2, ["expected an empty folder or a new one"]),
    ("page class.sqlite class.sqlite", 2, ["OUT.html class.sqlite would overwrite GRADEBOOK"]),
    ("push moodle class.sqlite", 2, ["push moodle: expected canvas"]),
    ("push canvas class.sqlite", 2, ["from --assignment or canvas_url in the policy"]),
    (CANVAS, 2, ["there is no token: set CANVAS_TOKEN, or name a file of mode 600 with --token-f"]),
    (f"{CANVAS} --token-file token", 2, ["run `chmod 600 token`"]),
    # --- the course
    ("new handed_in", 2, ["handed_in is not empty: name a new folder"]),
    ("new roster.csv", 2, ["roster.csv cannot be made: it is a file, not a folder"]),
    ("release studnet out.zip", 2, ["release studnet: expected student or gradescope"]),
    ("release student out.zip --wheels empty", 2, ["--wheels and --index-url are for release gr"]),
    ("release gradescope out.zip --wheels empty", 2, ["expected a folder of wheels", "pip downlo"]),
    ("release gradescope out.zip --index-url x", 2, ["--index-url x: expected an address such as"]),
    ("release student out.zip --handout roster.csv", 2, ["`make handout` builds, found a file"]),
    ("validate --only relo", 2, ["--only relo: no such problem; did you mean relu?"]),
    ("validate --prices --mutants", 2, ["--prices does not go with --mutants: remove one of them"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    """A graded class and the files of FILES."""
    folder = tmp_path_factory.mktemp("misuses")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    for name in ("handed_in", "empty", "temporary"):
        (folder / name).mkdir()
    course = load(shutil.copytree(root / "examples" / "tiny_course", folder / "course"))
    with zipfile.ZipFile(folder / "ada.zip", "w") as archive:
        archive.writestr("assignment/activations.py", SOURCE)
    shutil.copy(folder / "ada.zip", folder / "handed_in" / "ada.zip")
    with zipfile.ZipFile(folder / "roster.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with closing(sqlite3.connect(folder / "other.sqlite")) as database:
        database.execute("CREATE TABLE mine (x)")
    today = setups.of_today(
        course, [course.problem("relu")], device="cpu", isolation="bubblewrap", seed=0
    )
    with new_book(folder / "class.sqlite", today) as book:
        book.remember(Policy(deadlines={"default": DUE}))
        bob = Student(id="bob", section="A")
        book.students.enrol([Student(id="eve", name="Eve"), bob], roster=True)
        for student in ("ada", "bob"):
            text, at = SOURCE + f"# {student}\n", DUE + timedelta(hours=1)
            hand_in(book, student, text, at, setup_1=Status.FAILED)
        for number in range(60):
            book.feedback.comment("bob", f"{number}: {'long ' * 190}", name="")
    (folder / "cut.sqlite").write_bytes((folder / "class.sqlite").read_bytes()[:8192])
    return folder


@pytest.fixture
def call(folder, monkeypatch, capsys):
    """Run a command line in the folder; return its exit code and what it says at the end."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CANVAS_TOKEN", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))

    def run(line):
        words = shlex.split(line)
        course = [] if words[0] == "--course" else ["--course", "course"]
        monkeypatch.setattr(sys, "argv", ["grader", *course, *words])
        return cli._run()

    return run


def found_in(folder):
    """The rows of the gradebook, and everything else but what the lock and SQLite put beside it."""
    with closing(sqlite3.connect(folder / "class.sqlite")) as database:
        rows = list(database.iterdump())
    found = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    beside = ("class.sqlite", "-wal", "-shm", ".lock")
    return rows, {path: found[path] for path in found if not path.name.endswith(beside)}


@pytest.mark.parametrize(("line", "code", "parts"), ROWS, ids=[line[:60] for line, _, _ in ROWS])
def test_a_mistake_is_one_sentence_and_changes_nothing(call, folder, capsys, line, code, parts):
    before = found_in(folder)
    ended, said = call(line)
    printed = capsys.readouterr()
    assert ended == code, said + printed.err
    assert [part for part in parts if part not in said] == [], said
    assert said.startswith("grader: ")
    assert "\n" not in said
    assert (printed.out, printed.err) == ("", "")
    assert found_in(folder) == before


@contextmanager
def full_disk(most):
    """Let no file become longer than this number of bytes, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


DECIDES = [
    f"override ada --points 1 --reason x {BOOK}",
    f"extend ada {UNTIL} --reason x {BOOK}",
    f"rename-student ada --id a42 {BOOK}",
    f"comment ada --text x {BOOK}",
    BATCH + " --isolation none --only relu",
]


@pytest.mark.parametrize("line", DECIDES)
def test_a_locked_gradebook_is_the_machines_fault(call, folder, line):
    with gradebook.writing(folder / "class.sqlite"):
        before = found_in(folder)
        code, said = call(line)
        assert (code, found_in(folder)) == (3, before)
    assert "this machine cannot do this now: class.sqlite is being written by process" in said
    assert said.endswith("; wait until it exits")


@pytest.mark.parametrize(
    ("line", "most", "part"),
    [
        (
            "export class.sqlite --csv t --gradescope pages",
            40_000,
            "pages/bob.json cannot be written: ",
        ),
        ("export class.sqlite --html new --csv t --gradescope new/x", 40_000, "bob.json cannot be"),
        (DECIDES[0], 100, "class.sqlite: the disk cannot be written or read"),
        ("batch handed_in --gradebook new.sqlite --isolation none", 100, "new.sqlite: "),
        ("new mine/course", 100, "cannot be written: "),
        ("release gradescope out.zip", 3_000, "out.zip cannot be written: "),
    ],
)
def test_a_full_disk_is_the_machines_fault_and_nothing_is_left(call, folder, line, most, part):
    before = found_in(folder)
    with full_disk(most):
        code, said = call(line)
    assert (code, part in said) == (3, True), said
    assert said.startswith("grader: this machine cannot do this now: ")
    assert found_in(folder) == before


def test_too_few_open_files_are_the_machines_fault(call, folder):
    """What no command expects is no traceback either, if the machine has no more of something."""
    before = found_in(folder)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        ended = call("new mine")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert ended == (3, "grader: this machine cannot do this now: Too many open files: mine")
    assert found_in(folder) == before
